#include "core/io/importers/foreign_plan.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/plan/stage_mesh.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/importers/megatron_flags.hpp"
#include "core/io/importers/megatron_plan.hpp"
#include "core/io/readers/csv_plan.hpp"
#include "core/io/readers/device_resolver.hpp"
#include "core/io/text/input_errors.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t plan_text_size_limit = std::size_t{1} << 20;  // 8,192 devices at 128 bytes each

void check_size(const NamedFile& file) {
  if (file.text.size() > plan_text_size_limit)
    throw Error(file.path, fmt::format("is larger than {} bytes", plan_text_size_limit));
}

/// Any file that begins like JSON counts as JSON, and so does an unrecognized file called .json, because the
/// JSON reader reports its errors best.
PlanFormat detect_format(const NamedFile& file) {
  const std::size_t first = file.text.find_first_not_of(" \t\r\n");
  const char begin = first == std::string::npos ? ' ' : file.text[first];
  if (begin == '{' || begin == '[') return PlanFormat::json;
  check_size(file);
  if (is_csv_plan(file.text)) return PlanFormat::csv;
  if (has_megatron_flags(file.text)) return PlanFormat::megatron;
  if (file.path.ends_with(".json")) return PlanFormat::json;
  throw Error(file.path,
              "is not a plan: expected JSON as written by dtfm-plan -o, a CSV with the header "
              "`device,pipeline,stage,first_layer,last_layer`, or Megatron flags "
              "(`--pipeline-model-parallel-size` …)");
}

/// An error ends with the first note, as those of other formats do.
PlanAndNotes read_json_plan(const PlanFile& file, const Topology& topology, const Job& job,
                            std::vector<std::string> notes) {
  try {
    PlanAndNotes read = file.plan(topology, job);
    read.notes = std::move(notes);
    return read;
  } catch (const Error& error) {
    if (notes.empty()) throw;
    throw Error(error.where(), error.problem() + "\n" + notes.front());
  }
}

/// Warns of tensor-parallel groups that span hosts: their all-reduces need links within a host.
std::vector<std::string> cross_host_tensor_notes(const Plan& plan, const Topology& topology) {
  int cross_host_stages = 0;
  std::string first;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p)
    for (std::size_t s = 0; s < plan.pipelines[p].stages.size(); ++s) {
      const auto& devices = plan.pipelines[p].stages[s].devices;
      const auto host = [&](int device) { return topology.devices[at(device)].host; };
      const std::size_t tensor = at(stage_mesh(plan.execution, devices.size()).tensor);
      std::size_t i = 0;  // the first device on another host than its group begins on
      while (i < devices.size() && host(devices[i]) == host(devices[i - i % tensor])) ++i;
      if (i == devices.size() || cross_host_stages++ > 0) continue;
      first =
          fmt::format("stage {} of pipeline {} on {} and {}", s, p,
                      topology.devices[at(devices[i - i % tensor])].id, topology.devices[at(devices[i])].id);
    }
  if (cross_host_stages == 0) return {};
  return {fmt::format("tensor-parallel devices on different hosts: {}{}", first,
                      cross_host_stages > 1 ? fmt::format(" and {} more", cross_host_stages - 1) : "")};
}

}  // namespace

PlanSource make_plan_source(NamedFile file, std::optional<NamedFile> ranks) {
  PlanSource source{detect_format(file), std::move(file), std::move(ranks)};
  if (source.format == PlanFormat::megatron && !source.ranks)
    throw Error(source.file.path, "contains Megatron flags, which require a rank file (--ranks FILE)");
  if (source.format != PlanFormat::megatron && source.ranks)
    throw Error(source.ranks->path,
                fmt::format("a rank file requires Megatron flags, but {} is {}", source.file.path,
                            source.format == PlanFormat::csv ? "a CSV" : "JSON"));
  if (source.ranks) check_size(*source.ranks);
  if (source.format == PlanFormat::json)
    source.json.emplace(std::exchange(source.file.text, {}), source.file.path);
  return source;
}

PlanSource read_plan_source(const std::string& file, const std::optional<std::string>& ranks) {
  const auto read = [](const std::string& name) { return NamedFile{name, read_plan_text(name)}; };
  return make_plan_source(read(file), ranks ? std::optional(read(*ranks)) : std::nullopt);
}

std::optional<Job> plan_job(const PlanSource& source) {
  return source.json ? source.json->job() : std::nullopt;
}

PlanAndNotes read_any_plan(const PlanSource& source, const Topology& topology, const Job& job,
                           bool job_is_given) {
  const NamedFile& file = source.file;
  std::vector<std::string> notes;
  if (!job_is_given && !(source.json && source.json->has_job()))
    notes.push_back(
        fmt::format("{} does not specify a job; assuming the built-in {} (use --job FILE for another)",
                    file.path, job.name));
  if (source.json) return read_json_plan(*source.json, topology, job, std::move(notes));
  InputErrors errors;
  DeviceResolver resolver(topology, errors);
  const std::string closing = notes.empty() ? "" : notes.front();
  const Plan plan = source.format == PlanFormat::csv
                        ? read_csv_plan(file.text, file.path, job, resolver, errors)
                        : read_megatron_plan(file, source.ranks.value(), job, resolver, errors, notes);
  errors.throw_if_any(closing);
  if (const std::string unused = resolver.format_unused_devices(); !unused.empty()) notes.push_back(unused);
  for (std::string& note : cross_host_tensor_notes(plan, topology)) notes.push_back(std::move(note));
  SettingSet undecided = job.automatic;
  if (plan.execution.micro_batch != job.execution.micro_batch) undecided[Setting::micro_batch] = false;
  return {plan, notes, undecided};
}

}  // namespace dtfm::io
