// Matrices of measurements between all pairs of devices, as CSV.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <Eigen/Core>

#include "planner/io/text/units.hpp"

namespace dtfm::io {

inline constexpr std::size_t csv_size_limit = std::size_t{256} << 20;

struct MatrixFormat {
  std::span<const std::string> ids;  // of the devices: the size of the matrix
  Unit unit;                         // of every number
  bool zero_allowed = false;
};

/// A square matrix in base units from one line a row (row = sender), commas between cells. A first line
/// without numbers is a header: the device ids, in device order; where it has one cell more, each row begins
/// with its device's id. Blanks, CRLF and a missing last line end are fine; the diagonal is ignored and comes
/// back as 0. Throws Error with file:line:column for another shape and for a cell that is no number, not
/// finite, negative, zero (unless allowed) or not measured (empty, `-`, `nan`).
Eigen::MatrixXd parse_csv_matrix(std::string text, const std::string& file, const MatrixFormat& format);

}  // namespace dtfm::io
