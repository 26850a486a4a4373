#include "core/io/text/yaml_reader.hpp"

#include <filesystem>
#include <string>

#include "core/io/text/text_file.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

template <class Read>
std::string error_text(const std::string& text, const Read& read) {
  try {
    const YamlDocument document(text, "x.yaml");
    read(document);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_text(const std::string& text) {
  return error_text(text, [](const YamlDocument&) {});
}

/// Returns the error for `v: VALUE`.
template <class Read>
std::string value_error(const std::string& value, const Read& read) {
  return error_text("v: " + value,
                    [&](const YamlDocument& document) { read(document.root().map({"v"}).required("v")); });
}

std::string repeated(const std::string& part, std::size_t bytes, std::string text = "") {
  text.reserve(bytes + part.size());
  while (text.size() < bytes) text += part;
  return text;
}

}  // namespace

TEST_CASE("values are read with their types") {
  const YamlDocument document(
      "version: 1\nname: \"12\"\nn: -3\nx: 0.5\nyes: true\nt: 67 ms\nr: 1 Gbps\nb: 1 GB\np: 2 USD/h\nl: [a, "
      "b]\nk: two\n",
      "x.yaml");
  const YamlMap map =
      versioned_map(document, "a test", {"version", "name", "n", "x", "yes", "t", "r", "b", "p", "l", "k"});
  CHECK(map.required("name").text() == "12");
  CHECK(map.required("n").integer(-3, 3) == -3);
  CHECK(map.required("x").number(0, 1) == 0.5);
  CHECK(map.required("yes").boolean());
  CHECK(map.required("t").seconds().value() == 0.067);
  CHECK(map.required("r").rate().value() == 1e9);
  CHECK(map.required("b").bytes().value() == 1e9);
  CHECK(map.required("p").price().value() == 2);
  CHECK(map.required("l").list().size() == 2);
  CHECK(map.required("l").list()[1].where() == "x.yaml:10:8");
  CHECK(map.required("k").choice({"one", "two"}) == 1);
  CHECK_FALSE(map.optional("name")->is_map());
  CHECK_FALSE(map.has("absent"));
}

TEST_CASE("a value of the wrong kind or size is rejected with its position") {
  const auto integer = [](const YamlValue& v) { v.integer(1, 8192); };
  CHECK(value_error("0", integer) == "x.yaml:1:4: `v`: expected a whole number from 1 to 8192; found `0`");
  CHECK(value_error("8193", integer) ==
        "x.yaml:1:4: `v`: expected a whole number from 1 to 8192; found `8193`");
  CHECK(value_error("\"3\"", integer) ==
        "x.yaml:1:4: `v`: expected a whole number from 1 to 8192; found the string `3`");
  for (const char* text : {"010", "0x1F", "1.0", "1e2", "+1", "99999999999999999999", "abc", "1 2", "true"})
    CHECK(value_error(text, integer) ==
          "x.yaml:1:4: `v`: expected a whole number from 1 to 8192; found `" + std::string(text) + "`");
  CHECK(value_error("[1]", integer) ==
        "x.yaml:1:4: `v`: expected a whole number from 1 to 8192; found a list");
  CHECK(value_error("{a: 1}", integer) ==
        "x.yaml:1:4: `v`: expected a whole number from 1 to 8192; found a map");
  CHECK(value_error("", integer).ends_with(": `v`: expected a whole number from 1 to 8192; found nothing"));

  const auto number = [](const YamlValue& v) { v.number(0, 1); };
  CHECK(value_error("2", number) == "x.yaml:1:4: `v`: expected a number from 0 to 1; found `2`");
  for (const char* text : {".nan", ".inf", "nan", "0x1F", "010", "1_0"})
    CHECK(value_error(text, number) ==
          "x.yaml:1:4: `v`: expected a decimal number; found `" + std::string(text) + "`");
  CHECK(value_error("1e400", number) == "x.yaml:1:4: `v`: `1e400` is out of the range of a number");
  CHECK(value_error("'1'", number) == "x.yaml:1:4: `v`: expected a number; found the string `1`");
  const auto ratio = [](const YamlValue& v) { v.ratio(); };
  CHECK(value_error("0", ratio) == "x.yaml:1:4: `v`: must be above zero; found `0`");
  for (const char* text : {"1e300", "1e-300"})
    CHECK(value_error(text, ratio) ==
          "x.yaml:1:4: `v`: expected a number from 1e-06 to 1000000; found `" + std::string(text) + "`");

  CHECK(value_error("yes", [](const YamlValue& v) { v.boolean(); }) ==
        "x.yaml:1:4: `v`: expected true or false; found `yes`");
  CHECK(value_error("-5 ms", [](const YamlValue& v) { v.seconds(); }) ==
        "x.yaml:1:4: `v`: must not be negative; found `-5 ms`");
  CHECK(value_error("0 Gbps", [](const YamlValue& v) { v.rate(); }) ==
        "x.yaml:1:4: `v`: must be above zero; found `0 Gbps`");
  CHECK(value_error("67", [](const YamlValue& v) { v.seconds(); }) ==
        "x.yaml:1:4: `v`: expected a time with its unit (ns, us, ms, s, min, h) such as `67 ms`; found `67`");
  CHECK(value_error("-1 GB", [](const YamlValue& v) { v.bytes(); }) ==
        "x.yaml:1:4: `v`: must not be negative; found `-1 GB`");
  CHECK(value_error("2", [](const YamlValue& v) { v.price(); }) ==
        "x.yaml:1:4: `v`: expected a price with its unit (USD/h) such as `2.1 USD/h`; found `2`");
  CHECK(value_error("equl", [](const YamlValue& v) {
          v.choice({"equal", "rtt"});
        }) == "x.yaml:1:4: `v`: unknown `equl`; did you mean `equal`?");
  CHECK(value_error("a", [](const YamlValue& v) { v.list(); }) ==
        "x.yaml:1:4: `v`: expected a list; found `a`");
  CHECK(value_error("a", [](const YamlValue& v) { v.map({}); }) ==
        "x.yaml:1:4: `v`: expected a map; found `a`");
  CHECK(value_error("a", [](const YamlValue& v) { v.entries(); }) ==
        "x.yaml:1:4: `v`: expected a map; found `a`");

  const auto text = [](const YamlValue& v) { v.text(); };
  CHECK(value_error("''", text) == "x.yaml:1:4: `v`: must not be empty");
  CHECK(value_error("\"a\\nb\"", text) == "x.yaml:1:4: `v`: `a\\x0ab` contains a control character");
  CHECK(value_error(std::string(129, 'a'), text) ==
        "x.yaml:1:4: `v`: `" + std::string(60, 'a') + "…` is longer than 128 bytes");
}

TEST_CASE("keys are validated") {
  const auto read = [](const YamlDocument& document) {
    document.root().map({"latency", "bandwidth"}).required("bandwidth");
  };
  CHECK(error_text("latency: 1\nbandwith: 2\n", read) ==
        "x.yaml:2:1: unknown key `bandwith`; did you mean `bandwidth`?");
  CHECK(error_text("colour: 2\n", read) == "x.yaml:1:1: unknown key `colour`; known: `latency`, `bandwidth`");
  CHECK(error_text("{latency: 1}", read) == "x.yaml:1:1: missing key `bandwidth`");
  CHECK(error_text("a: 1\nb: 2\n\na: 3\n") == "x.yaml:4:1: key `a` is given twice, first on line 1");
  CHECK(error_text("[a]: 1\n") ==
        "x.yaml:1:1: expected a key: a word followed by a colon; or the bracket here is never closed");
}

TEST_CASE("a file must begin with its version") {
  const auto read = [](const YamlDocument& document) {
    versioned_map(document, "a topology", {"version", "name"});
  };
  CHECK(error_text("version: 1", read) == "no error");
  CHECK(error_text("name: x", read) == "x.yaml:1:1: missing `version: 1`, which a topology begins with");
  CHECK(error_text("version: 2", read) == "x.yaml:1:10: `version`: expected 1, the only supported version");
  CHECK(error_text("", read) == "x.yaml:1:1: expected a topology: a map that begins with `version: 1`");
  CHECK(error_text("- a", read) == "x.yaml:1:1: expected a topology: a map that begins with `version: 1`");
}

TEST_CASE("unsafe YAML features are rejected") {
  CHECK(error_text("a: &x [*x]") == "x.yaml:1:4: anchors (`&name`) are not supported");
  CHECK(error_text("a: *x").starts_with("x.yaml:1:4: "));
  CHECK(error_text("a: !!int 3") == "x.yaml:1:4: tags (`!name`) are not supported");
  CHECK(error_text("a: 1\n---\nb: 2\n") == "x.yaml:3:1: expected one document; found a second one");
  CHECK(error_text(std::string(40, '[') + std::string(40, ']')) ==
        "x.yaml:1:33: nested more than 32 levels deep");
  CHECK(error_text("a: [1, 2") == "x.yaml:1:1: not YAML: end of sequence flow not found");
  CHECK(error_text(std::string("a: \0b", 5)) == "x.yaml:1:4: control character in a text file: byte 0x00");
  CHECK(error_text("a: 1\nb: \xC3(") == "x.yaml:2:4: not UTF-8 text: byte 0xC3");
  for (const char* bad :
       {"\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\x80", "\xF4\x90\x80\x80"})
    CHECK(error_text(bad).starts_with("x.yaml:1:1: not UTF-8 text"));
  CHECK(error_text("\xEF\xBB\xBF"
                   "a: é 東 😀") == "no error");
  CHECK(error_text(std::string(yaml_size_limit + 1, ' ')) == "x.yaml: is larger than 16777216 bytes");
}

TEST_CASE("ten megabytes of garbage are rejected or read in time proportional to their size") {
  for (const char* part : {"[", "[\n", "a: ", "&a ", "- {a: 1, b: 2}\n"})
    CHECK(error_text(repeated(part, 10'000'000)) ==
          "x.yaml: has more than 2000000 YAML punctuation characters");
  CHECK(error_text(repeated("- - - - ", 10'000'000)) == "x.yaml:1:65: nested more than 32 levels deep");
  CHECK(error_text(repeated("a: b\n", 10'000'000)).ends_with("more than 1000000 values"));
  for (const char* part : {"[", "{a: ", "[a,", "&a ", "? ", "'a',", "a: b,\n"})
    error_text(repeated(part, 1'000'000));
  CHECK(error_text(repeated("x", 10'000'000)) == "no error");
}

TEST_CASE("files are read completely or rejected by name") {
  const std::string folder = std::filesystem::temp_directory_path().string();
  const auto read = [](const std::string& path) -> std::string {
    try {
      return read_file(path, 10);
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(read("/nonexistent/x.yaml") == "/nonexistent/x.yaml: cannot be opened: No such file or directory");
  CHECK(read(folder) == folder + ": expected a file; found a directory");
  CHECK(read("/dev/zero") == "/dev/zero: is larger than 10 bytes");
  CHECK(read("/dev/null").empty());
}
