// Any bytes read as a matrix of three devices give a matrix of positive numbers or an Error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/io/text/csv_matrix.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string> ids = {"a/0", "a/1", "b/0"};
  try {
    const Eigen::MatrixXd matrix = dtfm::io::parse_csv_matrix(
        std::string(reinterpret_cast<const char*>(data), size), "m.csv", {ids, dtfm::io::rate_unit("Gbps")});
    for (Eigen::Index from = 0; from < matrix.rows(); ++from)
      for (Eigen::Index to = 0; to < matrix.cols(); ++to)
        DTFM_ASSERT(from == to ? matrix(from, to) == 0 : matrix(from, to) > 0);
  } catch (const dtfm::Error&) {
  }
  return 0;
}
