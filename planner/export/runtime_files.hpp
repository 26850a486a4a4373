// The Python files of the runtime (python/), embedded in the program.
#pragma once

#include <span>
#include <string_view>

namespace dtfm::exporter {

struct RuntimeFile {
  std::string_view name, text;  // name: relative to python/, "dtfm_runtime/model.py"
};

std::span<const RuntimeFile> runtime_files();

}  // namespace dtfm::exporter
