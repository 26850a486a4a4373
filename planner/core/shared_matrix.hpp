// A matrix that copies share until one of them is changed: topologies are copied often, and their tables of
// links are most of them.
#pragma once

#include <memory>
#include <utility>

#include <Eigen/Core>

namespace dtfm {

template <class Matrix>
class SharedMatrix {
 public:
  using Scalar = typename Matrix::Scalar;

  SharedMatrix() : SharedMatrix(Matrix()) {}
  SharedMatrix(Matrix values) : values_(std::make_shared<Matrix>(std::move(values))) {}
  template <class Expression>
  SharedMatrix(const Eigen::EigenBase<Expression>& values) : SharedMatrix(Matrix(values)) {}

  operator const Matrix&() const { return *values_; }
  Scalar operator()(Eigen::Index row, Eigen::Index column) const { return (*values_)(row, column); }
  Eigen::Index rows() const { return values_->rows(); }
  Eigen::Index cols() const { return values_->cols(); }
  /// To change it; not while another thread copies or drops one that shares it.
  Matrix& mutable_matrix() {
    if (values_.use_count() > 1) values_ = std::make_shared<Matrix>(*values_);
    return *values_;
  }

 private:
  std::shared_ptr<Matrix> values_;
};

}  // namespace dtfm
