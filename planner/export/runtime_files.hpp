// The Python files of python/, embedded in the program.
#pragma once

#include <span>
#include <string_view>

namespace dtfm::exporter {

struct RuntimeFile {
  std::string_view name, text;  // name: relative to python/, "dtfm_runtime/model.py"
};

/// Those of the runtime, which --to pytorch exports.
std::span<const RuntimeFile> runtime_files();

/// The text of a file, also of the programs for other trainers: "trainers/deepspeed_train.py".
std::string_view python_file(std::string_view name);

}  // namespace dtfm::exporter
