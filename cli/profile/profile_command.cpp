// The dtfm-profile command: obtains a profile in one of several ways, prints it as a table and writes it to a
// file.
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/write_output.hpp"
#include "cli/profile/measure_layers.hpp"
#include "cli/profile/profile_options.hpp"
#include "cli/profile/profile_summary.hpp"
#include "core/plan/roofline.hpp"
#include "core/io/importers/import_profile.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

using Mode = ProfileOptions::Mode;

/// A job with nothing but the model preset `name`.
Job preset_job(const std::string& name, Precision precision) {
  const std::string quoted =
      nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string text = fmt::format(
      "version: 1\nname: {}\nmodel: {{preset: {}}}\ntraining: {{global_batch: 1, precision: {}}}\n", quoted,
      quoted, name_of(precision));
  try {
    return io::parse_job(text, "--model");
  } catch (const Error& error) {
    throw Error("--model", error.problem());
  }
}

/// The job with the model and the precision of the profile.
Job job_of(const ProfileOptions& options) {
  if (options.model) return preset_job(*options.model, options.precision.value_or(Training().precision));
  // Profiles are not read, because the job may refer to the one that is to be written.
  Job job = options.job ? io::read_job_without_profiles(*options.job) : io::default_job();
  if (!options.precision || *options.precision == job.training.precision) return job;
  if (options.mode == Mode::estimate && std::holds_alternative<LayerChain>(job.model))
    throw Error(
        "--precision",
        "cannot override the job, which gives layer sizes in its own precision; change it in the job");
  job.training.precision = *options.precision;
  return job;
}

/// Throws Error if different kinds of layers have the same name, by which a profile identifies them.
void check_names(const Job& job) {
  std::set<std::string> names;
  for (const Layer& kind : layer_kinds(job.model, bytes_per_element(job.training)).kinds)
    if (!names.insert(kind.name).second)
      throw Error("job " + job.name,
                  fmt::format("different layers have the same name, {}, which profiles cannot "
                              "distinguish; give them different names",
                              io::quote(kind.name)));
}

std::vector<int> default_if_empty(const std::vector<int>& values, std::vector<int> fallback) {
  return values.empty() ? std::move(fallback) : values;
}

/// Suggests the GPUs that begin with `name`, as several do with "V100", else one that is spelt similarly.
std::string suggest_gpus(const std::string& name, const std::vector<std::string_view>& names) {
  std::vector<std::string> longer;
  for (const std::string_view known : names)
    if (known.starts_with(name)) longer.push_back(io::quote(known));
  return longer.empty() ? io::suggestion(name, names) : fmt::format("known: {}", fmt::join(longer, ", "));
}

const Gpu& gpu_named(std::span<const Gpu> catalogue, const std::string& name) {
  std::vector<std::string_view> names;
  for (const Gpu& gpu : catalogue) {
    if (gpu.name == name) return gpu;
    names.push_back(gpu.name);
  }
  throw Error("--estimate", fmt::format("unknown GPU {}; {} (see --list-gpus)", io::quote(name),
                                        suggest_gpus(name, names)));
}

/// Returns the only number of the list, or nothing if it is empty. Throws Error if there are several.
std::optional<int> single_value(const std::vector<int>& numbers, const std::string& option) {
  if (numbers.size() > 1) throw Error(option, "expected one number, with which the files were measured");
  return numbers.empty() ? std::nullopt : std::optional(numbers.front());
}

LayerProfile import_layer_profile(const ProfileOptions& options, const Job& job) {
  const io::ImportSettings settings{*options.gpu, job, single_value(options.micro_batches, "--micro-batch"),
                                    single_value(options.tensors, "--tensor")};
  const std::vector<std::filesystem::path> files(options.files.begin(), options.files.end());
  return io::import_profile(
      io::find_row(io::import_formats(), options.import_format, "--import", "unknown format"), files,
      settings);
}

LayerProfile measure_profile(const ProfileOptions& options, const Job& job, std::span<const Gpu> catalogue,
                             LayerProfile (*measure)(const MeasureRequest&)) {
  ProgressPrinter printer(options.quiet, "dtfm-profile");
  return measure({job, options.gpu, catalogue, default_if_empty(options.micro_batches, {1, 2, 4, 8}),
                  default_if_empty(options.tensors, {1}),
                  [&](const Progress& progress) { printer.show(progress); }});
}

LayerProfile estimate_profile(const ProfileOptions& options, const Job& job, std::span<const Gpu> catalogue) {
  return estimated_profile(gpu_named(catalogue, *options.gpu), job, io::built_in_roofline(),
                           default_if_empty(options.micro_batches, {1, 2, 4, 8}),
                           default_if_empty(options.tensors, {1}));
}

/// Writes the profile file before printing: it must exist even if stdout is closed.
void write_output(const ProfileOptions& options, const ProfileSummary& summary) {
  write_output(options.output, options.format, io::format_json(io::profile_json(summary.profile)),
               format_summary(summary), options.color);
}

void list_gpus(const ProfileOptions& options, std::span<const Gpu> catalogue) {
  print_result(options.format == OutputFormat::json ? io::format_json(catalogue_json(catalogue))
                                                    : catalogue_text(catalogue),
               options.color);
}

/// A model of one layer with the shape in the profile, if it has one.
std::optional<Model> own_model(const LayerProfile& profile) {
  if (!profile.shape) return std::nullopt;
  Transformer model = *profile.shape;
  model.layers = 1;
  return model;
}

}  // namespace

int run_profile_command(const ProfileOptions& options, LayerProfile (*measure)(const MeasureRequest&)) {
  const InterruptWatch watch("a profile");
  const std::vector<Gpu> catalogue = io::built_in_gpus();
  if (options.mode == Mode::list_gpus) {
    list_gpus(options, catalogue);
    return exit_code::done;
  }
  if (options.mode == Mode::check) {
    const LayerProfile profile = io::read_profile(options.files.front());
    write_output(options, {profile, own_model(profile), catalogue});
    return exit_code::done;
  }
  std::vector<std::string> inputs = options.files;
  inputs.push_back(options.job.value_or(""));
  check_outputs(inputs, std::vector{options.output.value_or("")});
  const io::ReadLog read;
  const Job job = job_of(options);
  check_not_read(read, std::vector{options.output.value_or("")});
  check_names(job);
  const LayerProfile profile = options.mode == Mode::estimate ? estimate_profile(options, job, catalogue)
                               : options.mode == Mode::import
                                   ? import_layer_profile(options, job)
                                   : measure_profile(options, job, catalogue, measure);
  write_output(options, {profile, job.model, catalogue});
  return exit_code::done;
}

}  // namespace dtfm::cli
