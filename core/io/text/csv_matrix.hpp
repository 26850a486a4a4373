// Reads CSV matrices of measurements between all pairs of devices.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <Eigen/Core>

#include "core/io/text/text_file.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::io {

inline constexpr std::size_t csv_size_limit = std::size_t{256} << 20;

struct MatrixFormat {
  std::span<const std::string> ids;  // of the devices; their number is the size of the matrix
  Unit unit;                         // of all numbers
  bool zero_allowed = false;
};

/// Parses a square matrix (row = sender, column = receiver) and returns it in base units. There is one line
/// per row, with commas between cells. A first line without numbers is a header with the device ids in device
/// order; if the header has one cell more than there are devices, each row begins with the id of its device.
/// Blanks, CRLF and a missing line end after the last row are accepted. The diagonal is ignored and returned
/// as 0. Throws Error with file:line:column for any other shape, and for a cell that is not a number, not
/// finite, negative, zero (unless allowed) or not measured (empty, `-`, `nan`).
/// Opens the text twice, so that only a part of it is in memory.
Eigen::MatrixXd parse_csv_matrix(const OpenText& open, const std::string& file, const MatrixFormat& format);
Eigen::MatrixXd parse_csv_matrix(std::string_view text, const std::string& file, const MatrixFormat& format);

}  // namespace dtfm::io
