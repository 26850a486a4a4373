// Shared code of the importer fuzzers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/importers/import_profile.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm {
using namespace io;

/// Checks that any bytes in a file called `name` give either an Error or a profile that reads back after
/// being written.
template <class Import>
void fuzz_import(const Import& import, const std::string& name, const std::uint8_t* data, std::size_t size) {
  ImportSettings settings;
  settings.gpu = "one";
  settings.job.name = "tiny";
  settings.job.model = Transformer{2, 8, 2, 16, 100};
  settings.micro_batch = settings.tensor = 1;
  LayerProfile profile;
  try {
    const std::string text = validate_text(std::string(reinterpret_cast<const char*>(data), size), name);
    profile = import(std::vector{ImportFile{name, text}}, settings);
  } catch (const Error&) {
    return;
  }
  if (parse_profile(format_json(profile_json(profile)), "written.json") != profile) std::abort();
}

}  // namespace dtfm
