// dtfm-profile without its command line: one of five sources, then a table and a profile file out.
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
#include "cli/profile/measure_layers.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_result.hpp"
#include "cli/profile/profile_options.hpp"
#include "cli/profile/profile_summary.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/write_output.hpp"
#include "planner/core/roofline.hpp"
#include "planner/io/text/atomic_file.hpp"
#include "planner/io/readers/gpu_catalogue.hpp"
#include "planner/io/importers/import_profile.hpp"
#include "planner/io/readers/job_reader.hpp"
#include "planner/io/text/json_format.hpp"
#include "planner/io/readers/profile_reader.hpp"
#include "planner/io/readers/roofline_reader.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

using Mode = ProfileOptions::Mode;

/// A job of nothing but a model that has a name.
Job preset_job(const std::string& name, const std::string& precision) {
  const std::string quoted =
      nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string text = fmt::format(
      "version: 1\nname: {}\nmodel: {{preset: {}}}\ntraining: {{global_batch: 1, precision: {}}}\n", quoted,
      quoted, precision);
  try {
    return io::parse_job(text, "--model");
  } catch (const Error& error) {
    throw Error("--model",
                std::string(error.what()).substr(error.where().size() + 2));  // no one has the file
  }
}

/// Of the model and the precision that the times are of.
Job job_of(const ProfileOptions& options) {
  if (options.model) return preset_job(*options.model, options.precision.value_or("fp16"));
  Job job = options.job ? io::read_job_without_profiles(*options.job) : io::default_job();  // it may name this one
  if (!options.precision || *options.precision == job.training.precision) return job;
  if (options.mode == Mode::estimate && std::holds_alternative<LayerChain>(job.model))
    throw Error("--precision",
                "the job has the sizes of its layers in its own precision: set that in the job");
  job.training.precision = *options.precision;
  return job;
}

/// A profile tells layers apart by their names.
void check_names(const Job& job) {
  std::set<std::string> names;
  for (const Layer& kind : layer_kinds(job.model, bytes_per_element(job.training)).kinds)
    if (!names.insert(kind.name).second)
      throw Error("job " + job.name,
                  fmt::format("it has different layers of the name {}, which a profile cannot "
                              "tell apart; give them names of their own",
                              io::quote(kind.name)));
}

std::vector<int> default_if_empty(const std::vector<int>& values, std::vector<int> fallback) {
  return values.empty() ? std::move(fallback) : values;
}

/// "V100" is no GPU, but the beginning of several: these are named rather than what is spelt alike.
std::string suggest_gpus(const std::string& name, const std::vector<std::string_view>& names) {
  std::vector<std::string> longer;
  for (const std::string_view known : names)
    if (known.starts_with(name)) longer.push_back(io::quote(known));
  return longer.empty() ? io::suggestion(name, names) : fmt::format("there are {}", fmt::join(longer, ", "));
}

const Gpu& gpu_named(std::span<const Gpu> catalogue, const std::string& name) {
  std::vector<std::string_view> names;
  for (const Gpu& gpu : catalogue) {
    if (gpu.name == name) return gpu;
    names.push_back(gpu.name);
  }
  throw Error("--estimate", fmt::format("unknown GPU {}; {} (--list-gpus has all)", io::quote(name),
                                        suggest_gpus(name, names)));
}

/// The one number of a list that is not empty.
std::optional<int> single_value(const std::vector<int>& numbers, const std::string& option) {
  if (numbers.size() > 1) throw Error(option, "expected one number: what the files were measured at");
  return numbers.empty() ? std::nullopt : std::optional(numbers.front());
}

LayerProfile import_layer_profile(const ProfileOptions& options, const Job& job) {
  const io::ImportSettings settings{*options.gpu, job, single_value(options.micro_batches, "--micro-batch"),
                                single_value(options.tensors, "--tensor")};
  const std::vector<std::filesystem::path> files(options.files.begin(), options.files.end());
  return io::import_profile(io::find_row(io::import_formats(), options.import_format, "--import", "unknown format"),
                        files, settings);
}

LayerProfile measure_profile(const ProfileOptions& options, const Job& job, std::span<const Gpu> catalogue) {
  ProgressPrinter printer(options.quiet, "dtfm-profile");
  return measure_layers({job, options.gpu, catalogue, default_if_empty(options.micro_batches, {1, 2, 4, 8}),
                          default_if_empty(options.tensors, {1}), [&](double share, const std::string& text) {
                            if (printer.is_due()) printer.show(share, text);
                          }});
}

LayerProfile estimate_profile(const ProfileOptions& options, const Job& job, std::span<const Gpu> catalogue) {
  return estimated_profile(gpu_named(catalogue, *options.gpu), job, io::built_in_roofline(),
                           default_if_empty(options.micro_batches, {1, 2, 4, 8}), default_if_empty(options.tensors, {1}));
}

/// The profile file first: it must be there even if nobody reads stdout.
void write_output(const ProfileOptions& options, const ProfileSummary& summary) {
  write_output(options.output, options.format, io::format_json(io::profile_json(summary.profile)), format_summary(summary),
          options.color);
}

void list_gpus(const ProfileOptions& options, std::span<const Gpu> catalogue) {
  print_result(
      options.format == OutputFormat::json ? io::format_json(catalogue_json(catalogue)) : catalogue_text(catalogue),
      options.color);
}

/// Model of the profile's own shape.
std::optional<Model> own_model(const LayerProfile& profile) {
  if (!profile.shape) return std::nullopt;
  Transformer model = *profile.shape;
  model.layers = 1;
  return model;
}

}  // namespace

int run_profile_command(const ProfileOptions& options) {
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
                               : options.mode == Mode::import ? import_layer_profile(options, job)
                                                              : measure_profile(options, job, catalogue);
  write_output(options, {profile, job.model, catalogue});
  return exit_code::done;
}

}  // namespace dtfm::cli
