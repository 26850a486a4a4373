#include "cli/profile/profile_app.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/command_line.hpp"
#include "core/io/text/parse_number.hpp"
#include "cli/profile/profile_options.hpp"
#include "core/base/kind_table.hpp"
#include "core/io/importers/import_profile.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "core/io/readers/model_presets.hpp"
#include "core/io/text/control_characters.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::cli {
namespace {

using Mode = ProfileOptions::Mode;

#ifdef DTFM_HAVE_CUDA
constexpr const char* version_line = "dtfm-profile " DTFM_VERSION " (CUDA: yes)";
#else
constexpr const char* version_line = "dtfm-profile " DTFM_VERSION " (CUDA: no)";
#endif

constexpr const char* footer =
    R"(Without --estimate, --import and FILE, layers are measured on the GPU of this machine. A job refers
to its profiles by `profile: a100.json` or a list of files. Layers in a trace of PyTorch's profiler
are identified by the names that the trainer sets with record_function: embedding.fwd,
embedding.bwd, layer.0.fwd, layer.0.bwd, …, head.fwd, head.bwd.

Exit codes: 0 done, 1 internal error, 2 bad usage, bad input, or no GPU to measure.

Examples:
  dtfm-profile --model gpt3-xl --micro-batch 1,2,4,8 -o h200.json     (measures)
  dtfm-profile --estimate A100-80GB --job job.yaml --tensor 1,2 -o a100.json
  dtfm-profile --import sailor profile.json --gpu A100-40GB --job opt.yaml --precision tf32 -o a100.json
  dtfm-profile --import metis DeviceType.A100_tp*_bs*.json --gpu A100-80GB --job job.yaml -o a100.json
  dtfm-profile --import kineto run.pt.trace.json --gpu RTX-4090 --job job.yaml --micro-batch 2 \
    --tensor 1 -o 4090.json
  dtfm-profile a100.json                                              (checks and prints a profile)
  dtfm-profile --list-gpus)";

template <class Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.emplace_back(item.name);
  return names;
}

/// Parses a list such as `1,2,4` and sorts it. Throws Error for an invalid, repeated or 65th number.
std::vector<int> parse_number_list(const std::string& option, const std::string& text) {
  constexpr int max_value = 1'000'000;
  constexpr std::size_t longest = 64;
  std::vector<int> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    numbers.push_back(io::parse_whole_number(option, text.substr(begin, comma - begin), 1, max_value));
    if (numbers.size() > longest) throw Error(option, fmt::format("expected at most {} numbers", longest));
    begin = comma + 1;
  }
  std::sort(numbers.begin(), numbers.end());
  const auto twice = std::adjacent_find(numbers.begin(), numbers.end());
  if (twice != numbers.end()) throw Error(option, fmt::format("{} is given twice", *twice));
  return numbers;
}

std::string parse_gpu_name(const std::string& option, const std::string& text) {
  constexpr std::size_t longest = 128;  // as in profiles
  if (text.empty() || text.size() > longest || io::has_control_character(text))
    throw Error(option, fmt::format("expected the name of a GPU; found {}", io::quote(text)));
  return io::validate_text(text, option);
}

Precision parse_precision(const std::string& text) {
  return io::find_row(precision_table(), text, "--precision", "unknown precision").kind;
}

void add_mode_options(OptionList& list, ProfileOptions& options) {
  begin_group(list, "Mode (default: measure)");
  Option& estimate = add_option(
      list, "--estimate", "GPU", "estimates layer times from the data sheet of a GPU in the catalogue",
      [&](const std::string& text) { options.gpu = parse_gpu_name("--estimate", text); });
  set_completion_values(estimate, names_of(io::built_in_gpus()));
  Option& imported =
      add_option(list, "--import", "FORMAT",
                 "imports layer times from FILEs of sailor, metis or kineto (PyTorch profiler)",
                 [&](const std::string& text) { options.import_format = text; });
  set_completion_values(imported, names_of(io::import_formats()));
  add_flag(list, "--check", "checks and prints the profile FILE; implied if FILE is the only argument");
  add_flag(list, "--list-gpus", "prints the GPU catalogue and exits");
  add_argument(list, "FILE", "files to import, or profile to check", options.files);
}

void add_input_options(OptionList& list, ProfileOptions& options) {
  begin_group(list, heading::inputs);
  Option& model = add_option(list, "--model", "NAME", "model from configs/models.yaml [GPT-3 XL]",
                             [&](const std::string& text) { options.model = text; });
  set_completion_values(model, io::preset_names());
  add_option(list, "--job", "FILE", "job (YAML) whose model and precision to use",
             [&](const std::string& text) { options.job = text; });
  Option& gpu = add_option(list, "--gpu", "NAME",
                           "GPU that was or is measured, by its name in the catalogue [detected]",
                           [&](const std::string& text) { options.gpu = parse_gpu_name("--gpu", text); });
  set_completion_values(gpu, names_of(io::built_in_gpus()));
  const std::string precisions =
      fmt::format("{} [that of the job]", fmt::join(names_in(precision_table()), ", "));
  Option& precision = add_option(list, "--precision", "NAME", precisions.c_str(),
                                 [&](const std::string& text) { options.precision = parse_precision(text); });
  set_completion_values(precision, names_of(precision_table()));
  add_option(
      list, "--micro-batch", "LIST", "micro-batch sizes; with --import kineto, the measured size [1,2,4,8]",
      [&](const std::string& text) { options.micro_batches = parse_number_list("--micro-batch", text); });
  add_option(list, "--tensor", "LIST",
             "tensor-parallel degrees; with --import kineto, the measured degree [1]",
             [&](const std::string& text) { options.tensors = parse_number_list("--tensor", text); });
}

void add_output_options(OptionList& list, ProfileOptions& options) {
  begin_group(list, heading::output);
  add_option(list, "-o,--output", "FILE", "writes the profile (JSON); - for stdout instead of the table",
             [&](const std::string& text) { options.output = text; });
  add_format_option(list, options.format);
}

Mode mode_of(const OptionList& list) {
  constexpr std::pair<const char*, Mode> modes[] = {{"--estimate", Mode::estimate},
                                                    {"--import", Mode::import},
                                                    {"--check", Mode::check},
                                                    {"--list-gpus", Mode::list_gpus}};
  const char* chosen = nullptr;
  Mode mode = is_given(list, "FILE") ? Mode::check : Mode::measure;
  for (const auto& [name, option_mode] : modes) {
    if (!is_given(list, name)) continue;
    if (chosen) throw Error(name, fmt::format("cannot be combined with {}", chosen));
    chosen = name;
    mode = option_mode;
  }
  return mode;
}

/// Throws Error for an option that the chosen mode does not use.
void reject_irrelevant_options(const OptionList& list, Mode mode) {
  const bool only_prints = mode == Mode::check || mode == Mode::list_gpus;
  if (only_prints)
    reject_options(list, {"--model", "--job", "--precision", "--micro-batch", "--tensor", "--output"},
                   "cannot be used when only printing");
  if (only_prints || mode == Mode::estimate)
    reject_options(list, {"--gpu"}, "requires --import or measuring");
  if (mode != Mode::check && mode != Mode::import)
    reject_options(list, {"FILE"}, "requires --import or --check");
}

void check_complete(const ProfileOptions& options) {
  if (options.job && options.model) throw Error("--model", "cannot be combined with --job");
  const auto missing = [](const char* what) {
    return Error("", fmt::format("{} (see dtfm-profile --help)", what));
  };
  if (options.mode == Mode::check && options.files.size() != 1) throw missing("--check takes one FILE");
  if (options.mode != Mode::import) return;
  if (options.files.empty()) throw missing("FILE is missing: name the files to import");
  if (!options.gpu) throw missing("--gpu is missing: name the GPU that was measured");
  if (!options.job && !options.model)
    throw missing("--model or --job is missing: name the model that was measured");
}

void check_profile_options(const OptionList& list, ProfileOptions& options) {
  options.mode = mode_of(list);
  reject_irrelevant_options(list, options.mode);
  check_complete(options);
}

}  // namespace

void add_profile_options(OptionList& list, ProfileOptions& options) {
  set_texts(list, "dtfm-profile",
            "Measures, estimates or imports the times of the layers of a model on a GPU.", footer);
  add_mode_options(list, options);
  add_input_options(list, options);
  add_output_options(list, options);
  add_general_options(list, options.color, options.quiet, "prints no progress", version_line);
}

std::optional<ProfileOptions> parse_profile_options(int argc, char** argv) {
  OptionList list;
  ProfileOptions options;
  add_profile_options(list, options);
  if (!parse_command_line(list, argc, argv)) return std::nullopt;
  check_profile_options(list, options);
  return options;
}

}  // namespace dtfm::cli
