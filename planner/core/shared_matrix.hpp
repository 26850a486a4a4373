// A copy-on-write matrix: topologies are copied often, and link tables are most of their data.
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
  /// Returns the matrix for modification, after copying it if it is shared. Must not run while another thread
  /// copies or destroys a matrix that shares the data.
  Matrix& mutable_matrix() {
    if (values_.use_count() > 1) values_ = std::make_shared<Matrix>(*values_);
    return *values_;
  }

 private:
  std::shared_ptr<Matrix> values_;
};

}  // namespace dtfm
