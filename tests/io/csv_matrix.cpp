#include "core/io/text/csv_matrix.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

const std::vector<std::string> ids = {"oregon/0", "ohio/0", "ohio/1"};

Eigen::MatrixXd read(const std::string& text, bool zero_allowed = false) {
  return parse_csv_matrix(text, "m.csv", {ids, time_unit("ms"), zero_allowed});
}

std::string error_text(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("rows are senders and numbers are in the caller's unit") {
  const Eigen::MatrixXd matrix = read("0,67,49\n11,0,5\n1.5,2,0\n");
  CHECK(matrix(0, 1) == 0.067);
  CHECK(matrix(1, 0) == 0.011);
  CHECK(matrix(2, 0) == 0.0015);
  CHECK(matrix(1, 1) == 0);
}

TEST_CASE("number formats of other programs are accepted") {
  const Eigen::MatrixXd plain = read("0,67,49\n11,0,5\n1.5,2,0\n");
  CHECK(read("\xEF\xBB\xBF-,67,49\r\n11,nan,5\r\n1.5, 2 ,\r\n\r\n") == plain);
  CHECK(read(" ,6.7e+01,49\n11,x,5\n1.5,2,-1") == plain);
  CHECK(read("oregon/0,ohio/0,ohio/1\n0,67,49\n11,0,5\n1.5,2,0\n") == plain);
  CHECK(read(",\"oregon/0\",ohio/0,ohio/1\noregon/0,0,67,49\nohio/0,11,0,5\nohio/1,1.5,2,0\n") == plain);
  CHECK(read("0,0,0\n0,0,0\n0,0,0\n", true) == Eigen::MatrixXd::Zero(3, 3));
}

TEST_CASE("a matrix of the wrong shape is rejected") {
  CHECK(error_text("0,1,1\n1,0,1\n") == "m.csv:3:1: expected 3 rows, as the topology has 3 devices; found 2");
  CHECK(error_text("0,1,1\n1,0,1\n1,1,0\n1,1,1\n") ==
        "m.csv:4:1: expected 3 rows, as the topology has 3 devices; found 4");
  CHECK(error_text("") == "m.csv:1:1: expected 3 rows, as the topology has 3 devices; found 0");
  CHECK(error_text("0,1,1\n1,0\n1,1,0\n") ==
        "m.csv:2:1: expected 3 cells, as the topology has 3 devices; found 2");
  CHECK(error_text("0,1,1\n1,0,1,\n1,1,0\n") ==
        "m.csv:2:1: expected 3 cells, as the topology has 3 devices; found 4");
  CHECK(error_text("0,1,1\n\n1,0,1\n") ==
        "m.csv:2:1: expected 3 cells, as the topology has 3 devices; found 1");
}

TEST_CASE("a header whose order differs from the devices is rejected") {
  CHECK(error_text("oregon/0,ohio/1,ohio/0\n0,1,1\n1,0,1\n1,1,0\n") ==
        "m.csv:1:10: expected `ohio/0`, the id of device 2 of the topology; found `ohio/1`");
  CHECK(error_text(",oregon/0,ohio/0,ohio/1\noregon/0,0,1,1\nohio/1,1,0,1\nohio/0,1,1,0\n") ==
        "m.csv:3:1: expected `ohio/0`, the id of device 2 of the topology; found `ohio/1`");
  CHECK(error_text("oregon/0,ohio/0\n0,1,1\n1,0,1\n1,1,0\n") ==
        "m.csv:1:1: expected 3 cells, as the topology has 3 devices; found 2");
}

TEST_CASE("a cell that is not a measurement is rejected") {
  const auto cell = [](const std::string& text) { return error_text("0,1,1\n1,0, " + text + "\n1,1,0\n"); };
  CHECK(cell("fast") == "m.csv:2:6: expected a decimal number; found `fast`");
  CHECK(cell("1;2") == "m.csv:2:6: expected a decimal number; found `1;2`");
  CHECK(cell("inf") == "m.csv:2:6: expected a decimal number; found `inf`");
  CHECK(cell("0x1F") == "m.csv:2:6: expected a decimal number; found `0x1F`");
  CHECK(cell("1e400") == "m.csv:2:6: `1e400` is out of the range of a number");
  CHECK(cell("-1") == "m.csv:2:6: must not be negative; found `-1`");
  CHECK(cell("0") == "m.csv:2:6: must be above zero; found `0`");
  CHECK(cell("-") == "m.csv:2:6: ohio/0 → ohio/1 is not measured");
  CHECK(cell("nan") == "m.csv:2:6: ohio/0 → ohio/1 is not measured");
  CHECK(error_text("0,1,1\n1,0,\n1,1,0\n") == "m.csv:2:5: ohio/0 → ohio/1 is not measured");
  CHECK(cell("\x01") == "m.csv:2:6: control character in a text file: byte 0x01");
}

TEST_CASE("a bad cell in the first line is reported as a cell rather than a header") {
  const auto first = [](const std::string& line) { return error_text(line + "\n1,0,1\n1,1,0\n"); };
  CHECK(first("0,1x0,5") == "m.csv:1:3: expected a decimal number; found `1x0`");
  CHECK(first("1x0,fast,5") == "m.csv:1:5: expected a decimal number; found `fast`");
  CHECK(first("-,fast,slow") == "m.csv:1:3: expected a decimal number; found `fast`");
  CHECK(first("0,1,+inf") == "m.csv:1:5: expected a decimal number; found `+inf`");
  CHECK(first("0,1x0,5,7") == "m.csv:1:1: expected 3 cells, as the topology has 3 devices; found 4");
  CHECK(error_text("oregon/0,fast,slow\n0,1,1\n1,0,1\n1,1,0\n") ==
        "m.csv:1:10: expected `ohio/0`, the id of device 2 of the topology; found `fast`");
  CHECK(read("0,oregon/0,ohio/0,ohio/1\noregon/0,0,67,49\nohio/0,11,0,5\nohio/1,1.5,2,0\n") ==
        read("0,67,49\n11,0,5\n1.5,2,0\n"));
}

TEST_CASE("a matrix that is read in small parts is that of the whole text, and has the same errors") {
  const auto in_parts = [](const std::string& text, std::size_t size) {
    const OpenText open = [&text, size] {
      return [&text, size, read = std::size_t{0}](std::string& some) mutable {
        some += text.substr(read, size);
        return std::exchange(read, std::min(read + size, text.size())) < text.size();
      };
    };
    return parse_csv_matrix(open, "m.csv", {ids, time_unit("ms"), false});
  };
  for (const std::string text :
       {"\xEF\xBB\xBF-,67,49\r\n11,nan,5\r\n1.5, 2 ,\r\n\r\n", "0,67,49\n11,0,5\n1.5,2,0", "0,1,1\n1,0,1\n",
        "0,1,1\n1,0,fast\n1,1,0\n", "0,1,1\n1,0,\xC3\n1,1,0\n", "\n\n\n0,1,1\n", "",
        ",oregon/0,ohio/0,ohio/1\noregon/0,0,67,49\nohio/0,11,0,5\nohio/1,1.5,2,0\n"})
    for (const std::size_t size : {1u, 2u, 3u, 7u}) {
      CAPTURE(text, size);
      const std::string expected = error_text(text);
      if (expected == "no error")
        CHECK(in_parts(text, size) == read(text));
      else
        CHECK_THROWS_WITH(in_parts(text, size), expected);
    }
}

TEST_CASE("a large matrix and ten megabytes of garbage are read in one pass") {
  constexpr std::size_t size = 1024;
  std::vector<std::string> many;
  std::string text, row;
  for (std::size_t i = 0; i < size; ++i) many.emplace_back("site/" + std::to_string(i));
  for (std::size_t i = 0; i < size; ++i) row += i == 0 ? "0.523" : ",0.523";
  for (std::size_t i = 0; i < size; ++i) text += row + "\n";
  const Eigen::MatrixXd matrix = parse_csv_matrix(text, "m.csv", {many, rate_unit("Gbps")});
  CHECK(matrix(1, 0) == 0.523e9);
  CHECK(matrix(1023, 1022) == 0.523e9);

  CHECK(error_text(std::string(10'000'000, ',')) ==
        "m.csv:2:1: expected 3 rows, as the topology has 3 devices; found 1");
  CHECK(error_text(std::string(10'000'000, '\n')) ==
        "m.csv:1:1: expected 3 rows, as the topology has 3 devices; found 0");
  CHECK(error_text("0,1,1\n1,0," + std::string(10'000'000, '9') + "\n1,1,0\n").ends_with("of a number"));
}
