#include "core/io/text/units.hpp"

#include <string>

#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

template <class Parse>
std::string error_text(const Parse& parse, const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a quantity is the double nearest to the written number") {
  CHECK(parse_seconds("67 ms").value() == 0.067);
  CHECK(parse_seconds("67ms").value() == 0.067);
  CHECK(parse_seconds("  5\tus ").value() == 5e-6);
  CHECK(parse_seconds("0.3 µs").value() == 0.3e-6);
  CHECK(parse_seconds("0.3 μs").value() == 0.3e-6);
  CHECK(parse_seconds("7 ns").value() == 7e-9);
  CHECK(parse_seconds("1.5 min").value() == 90);
  CHECK(parse_seconds("2 h").value() == 7200);
  CHECK(parse_seconds("1e-2 s").value() == 0.01);
  CHECK(parse_seconds("1E+2s").value() == 100);
  CHECK(parse_rate("0.79 Gbps").value() == 0.79e9);
  CHECK(parse_rate("0.524 Gbit/s").value() == 0.524e9);
  CHECK(parse_rate("40 Mbps").value() == 40e6);
  CHECK(parse_rate("9 bps").value() == 9);
  CHECK(parse_rate("1.1 Tbps").value() == 1.1e12);
  CHECK(parse_rate("5 GB/s").value() == 40e9);
  CHECK(parse_rate("1 GiB/s").value() == 8.0 * 1024 * 1024 * 1024);
  CHECK(parse_bytes("16 GB").value() == 16e9);
  CHECK(parse_bytes("80 GiB").value() == 85899345920.0);
  CHECK(parse_bytes("0.47124922275543213 GB").value() == 0.47124922275543213e9);
  CHECK(parse_bytes("0 B").value() == 0);
  CHECK(parse_price("2.1 USD/h").value() == 2.1);
  CHECK(parse_data_price("0.09 USD/GB").value() == 0.09e-9);
  CHECK(parse_data_price("20 USD/TB").value() == 20e-12);
  CHECK(parse_data_price("1 USD/GiB").value() == 1 / (1024.0 * 1024 * 1024));
  CHECK(parse_flops("0.24 TFLOP").value() == 0.24e12);
  CHECK(parse_flop_rate("125 TFLOP/s").value() == 125e12);
  CHECK(parse_flop_rate("4.37TFLOP/s").value() == 4.37e12);
}

TEST_CASE("a number without a unit is rejected with the list of units") {
  CHECK(error_text(parse_seconds, "67") ==
        "expected a time with its unit (ns, us, ms, s, min, h) such as `67 ms`; found `67`");
  CHECK(error_text(parse_rate, "") ==
        "expected a data rate, a finite decimal number with its unit (bps, kbps, Mbps, Gbps, Tbps, B/s, "
        "kB/s, MB/s, GB/s, TB/s) such as "
        "`0.79 Gbps`; found nothing");
  CHECK(error_text(parse_bytes, "Gb") ==
        "expected a size, a finite decimal number with its unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB) such "
        "as `16 GB`; found `Gb`");
  CHECK(error_text(parse_price, "2.1") ==
        "expected a price with its unit (USD/h) such as `2.1 USD/h`; found `2.1`");
  for (const char* text : {"inf ms", "+inf ms", "-inf s", ".inf", "nan ms", "NaN", "infinity", "+5 ms"})
    CHECK(error_text(parse_seconds, text) ==
          std::string("expected a time, a finite decimal number with its unit (ns, us, ms, s, min, h) such "
                      "as `67 ms`; found `") +
              text + "`");
}

TEST_CASE("an unknown unit is rejected with the nearest known unit") {
  CHECK(error_text(parse_rate, "5 Gbbps") == "`Gbbps` is not a unit of data rate; did you mean `Gbps`?");
  CHECK(error_text(parse_seconds, "5 fortnights") ==
        "`fortnights` is not a unit of time; known: `ns`, `us`, `ms`, `s`, `min`, `h`");
  CHECK(error_text(parse_flop_rate, "125 TFLOPS") ==
        "`TFLOPS` is not a unit of compute rate; did you mean `TFLOP/s`?");
  CHECK(error_text(parse_price, "5 USD/hour") == "`USD/hour` is not a unit of price; known: `USD/h`");
}

TEST_CASE("only plain decimal numbers are accepted") {
  for (const char* text :
       {"0x1F", "010", "1_000", "+5", ".5", "5.", "1e", "inf", "nan", ".nan", "-", "", "1 2", "१"})
    CHECK(error_text(parse_decimal, text).starts_with("expected a decimal number; found "));
  CHECK(parse_decimal("0.5") == 0.5);
  CHECK(parse_decimal("-0.5e-3") == -0.0005);
  CHECK(parse_decimal("0") == 0);
  CHECK(error_text(parse_decimal, "1e400") == "`1e400` is out of the range of a number");
  CHECK(error_text(parse_decimal, "1e99999999999999999999") ==
        "`1e99999999999999999999` is out of the range of a number");
  CHECK(error_text(parse_rate, "1e300 Tbps") == "`1e300 Tbps` is out of the range of a number");
  CHECK(error_text(parse_bytes, "1e308 TiB") == "`1e308 TiB` is out of the range of a number");
}

TEST_CASE("values outside the physical range are rejected whatever their unit") {
  CHECK(error_text(parse_seconds, "1e12 s") ==
        "`1e12 s` is out of range: a time must be from 1e-12 to 1e+09 s");
  CHECK(error_text(parse_rate, "1e-300 Gbps") ==
        "`1e-300 Gbps` is out of range: a data rate must be from 0.001 to 1e+18 bps");
  CHECK(error_text(parse_bytes, "-1e10 GB").starts_with("`-1e10 GB` is out of range: a size"));
  CHECK(error_text(parse_flop_rate, "1e300 FLOP/s").find("a compute rate") != std::string::npos);
  CHECK(error_text(parse_price, "1e12 USD/h").find("a price") != std::string::npos);
  CHECK(error_text(parse_data_price, "1e12 USD/GB") ==
        "`1e12 USD/GB` is out of range: a data price must be from 1e-18 to 1 USD/B");
  CHECK(error_text(parse_data_price, "0.09 USD") ==
        "`USD` is not a unit of data price; known: `USD/GB`, `USD/TB`, `USD/GiB`, `USD/TiB`");
  const auto in_milliseconds = [](std::string_view text) { return parse_in_unit(text, time_unit("ms")); };
  CHECK(error_text(in_milliseconds, "1e13") ==
        "`1e13` is out of range: a time must be from 1e-12 to 1e+09 s");
  CHECK(parse_seconds("0 s").value() == 0);
  CHECK(parse_seconds("1e9 s").value() == 1e9);
  CHECK(parse_rate("1 bps").value() == 1);
}

TEST_CASE("a number in a known unit is rounded only once") {
  CHECK(parse_in_unit("67", time_unit("ms")) == 0.067);
  CHECK(parse_in_unit("0.79", rate_unit("Gbps")) == 0.79e9);
  CHECK(parse_in_unit("1.5", rate_unit("GB/s")) == 12e9);
  CHECK(parse_in_unit("6.700000000000000000e+01", time_unit("ms")) == 0.067);
  CHECK(parse_in_unit("1" + std::string(200, '0') + "e-200", time_unit("s")) == 1);
  CHECK(error_text(rate_unit, "ms") ==
        "`ms` is not a unit of data rate; known: `bps`, `kbps`, `Mbps`, `Gbps`, `Tbps`, "
        "`B/s`, `kB/s`, `MB/s`, `GB/s`, `TB/s`");
}

TEST_CASE("quantities are formatted in a suitable unit") {
  CHECK(format_seconds(Seconds(0.067)) == "67 ms");
  CHECK(format_seconds(Seconds(43.123)) == "43.12 s");
  CHECK(format_seconds(Seconds(5400)) == "1.5 h");
  CHECK(format_seconds(Seconds(0)) == "0 s");
  CHECK(format_seconds(Seconds(3e-10)) == "0.3 ns");
  CHECK(format_rate(BitsPerSecond(0.79e9)) == "790 Mbps");
  CHECK(format_rate(BitsPerSecond(1.1e9)) == "1.1 Gbps");
  CHECK(format_rate(BitsPerSecond(1e18 / 0.0)) == "unlimited");
  CHECK(format_bytes(Bytes(16e9)) == "16 GB");
  CHECK(format_flop_rate(FlopsPerSecond(34.7e12)) == "34.7 TFLOP/s");
}

TEST_CASE("the nearest name is suggested") {
  CHECK(suggestion("bandwith", {"latency", "bandwidth"}) == "did you mean `bandwidth`?");
  CHECK(suggestion("v100-16gb", {"V100-32GB", "V100-16GB"}) == "did you mean `V100-16GB`?");
  CHECK(suggestion("ohoi", {"oregon", "ohio"}) == "did you mean `ohio`?");
  CHECK(suggestion("quux", {"oregon", "ohio"}) == "known: `oregon`, `ohio`");
  CHECK(suggestion("x", {}) == "there are none");
  CHECK(suggestion("zzz", {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b0", "b1", "b2", "b3"}) ==
        "known: `a0`, `a1`, `a2`, `a3`, `a4`, `a5`, `a6`, `a7`, `a8`, `a9`, `b0`, `b1`, `b2`, `b3`");
  const std::vector<std::string_view> many(102, "device");
  CHECK(suggestion("zzz", many).ends_with("`device` and 2 more"));
}

TEST_CASE("a row of a table is found by its name") {
  struct Row {
    std::string name;
    int value;
  };
  const std::vector<Row> rows = {{"oregon", 1}, {"ohio", 2}};
  CHECK(&find_row(rows, "ohio", "--site", "no site") == &rows[1]);
  CHECK(error_message([&] { find_row(rows, "ohoi", "--site", "no site"); }) ==
        "--site: no site `ohoi`; did you mean `ohio`?");
  CHECK(error_message([&] { find_row(std::vector<Row>(), "x", "--site", "no site"); }) ==
        "--site: no site `x`; there are none");
}

TEST_CASE("quoted text fits a line and escapes control characters") {
  CHECK(quote("a\nb") == "`a\\x0ab`");
  CHECK(quote(std::string(100, 'x')) == "`" + std::string(60, 'x') + "…`");
  CHECK(quote(std::string(59, 'x') + "é and more") == "`" + std::string(59, 'x') + "…`");
}
