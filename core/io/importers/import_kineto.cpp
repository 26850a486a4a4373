// Imports Chrome traces of PyTorch's profiler (Kineto) in which the trainer has annotated the layers by
// record_function: `embedding.fwd`, `layer.0.fwd`, `head.fwd`, the same with `.bwd` and, optionally, with
// `.update`.
//
// The time of an annotation is the union of the intervals of the kernels and copies that were launched within
// it on its thread, each attributed to the innermost annotation. A forward pass that is recomputed within a
// backward pass is therefore another sample of the forward pass. If the trace has no kernels (a run on a
// CPU), it is the duration of the annotation without the annotations nested in it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/importers/import_profile.hpp"
#include "core/io/text/json_reader.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

using Phase = LayerSamples::Phase;

constexpr double us_per_s = 1e6, max_us = 1e18, max_correlation = 1e15;

struct Interval {
  double begin = 0, end = 0;  // us
};

/// One execution of one phase of a layer.
struct Annotation {
  Interval time;
  int thread = 0;
  int kind = 0;
  Phase phase = Phase::forward;
  std::string name;
  double nested_us = 0;           // duration of the annotations directly within it
  std::vector<Interval> kernels;  // those attributed to it
  bool is_warm_up = false;
};

struct Launch {
  double time_us = 0;
  int thread = 0;
  double correlation = 0;
};

struct Kernel {
  Interval time;
  double correlation = 0;
  bool is_assigned = false;
};

struct Trace {
  std::vector<Annotation> annotations;
  std::vector<Launch> launches;
  std::vector<Kernel> kernels;
  std::vector<double> steps;  // begin of each profiler step, us
  bool has_communication = false;
};

/// Parses the names of annotations into layer kind and phase; nullopt for names that are not of a layer.
class LayerNames {
 public:
  explicit LayerNames(const LayerKinds& kinds, const Model& model)
      : kinds_(kinds), is_transformer_(std::holds_alternative<Transformer>(model)) {}

  std::optional<std::pair<int, Phase>> parse(std::string_view name, const JsonCursor& event) const {
    constexpr std::pair<std::string_view, Phase> suffixes[] = {
        {".fwd", Phase::forward}, {".bwd", Phase::backward}, {".update", Phase::update}};
    for (const auto& [suffix, phase] : suffixes)
      if (name.ends_with(suffix))
        if (const auto kind = kind_of(name.substr(0, name.size() - suffix.size()), event))
          return std::pair{*kind, phase};
    return std::nullopt;
  }

 private:
  /// All blocks of a transformer are of one kind; the layers of a chain are identified by their number.
  std::optional<int> kind_of(std::string_view layer, const JsonCursor& event) const {
    constexpr std::string_view layer_prefix = "layer.";
    if (!layer.starts_with(layer_prefix)) return is_transformer_ ? find_kind(layer) : std::nullopt;
    int number = -1;
    const std::string_view digits = layer.substr(layer_prefix.size());
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (status != std::errc() || end != digits.data() + digits.size() || number < 0) return std::nullopt;
    if (at(number) >= kinds_.kinds_of_layer.size())
      event.fail(fmt::format("the model has {} layers, numbered from 0; found {}",
                             kinds_.kinds_of_layer.size(), quote(layer)));
    return is_transformer_ ? find_kind("block") : kinds_.kinds_of_layer[at(number)].front();
  }

  std::optional<int> find_kind(std::string_view name) const {
    for (std::size_t kind = 0; kind < kinds_.kinds.size(); ++kind)
      if (kinds_.kinds[kind].name == name) return static_cast<int>(kind);
    return std::nullopt;
  }

  const LayerKinds& kinds_;
  bool is_transformer_;
};

/// Numbers threads from 0 in order of appearance.
class Threads {
 public:
  int number_of(const JsonCursor& event) {
    const std::string name = read_id(event, "pid") + "/" + read_id(event, "tid");
    return numbers_.emplace(name, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  static std::string read_id(const JsonCursor& event, const char* key) {
    const auto value = event.optional(key);
    if (!value) return "";
    return value->is_string() ? value->as_string() : fmt::format("{}", value->as_number(-max_us, max_us));
  }
  std::map<std::string, int> numbers_;
};

std::string_view text_or_empty(const JsonCursor& event, const char* key) {
  const auto value = event.optional(key);
  return value && value->is_string() ? std::string_view(value->as_string()) : std::string_view();
}

Interval read_interval(const JsonCursor& event) {
  const double begin = event.required("ts").as_number(-max_us, max_us);
  return {begin, begin + event.required("dur").as_number(0, max_imported_seconds * us_per_s)};
}

std::optional<double> read_correlation(const JsonCursor& event) {
  const auto args = event.optional("args");
  const auto correlation = args ? args->optional("correlation") : std::nullopt;
  return correlation ? std::optional(correlation->as_number(0, max_correlation)) : std::nullopt;
}

class TraceReader {
 public:
  explicit TraceReader(LayerNames names) : names_(names) {}

  void add_event(const JsonCursor& event) {
    if (text_or_empty(event, "ph") != "X") return;
    const std::string_view category = text_or_empty(event, "cat");
    if (category == "user_annotation") add_annotation(event);
    if (category == "cuda_runtime" || category == "cuda_driver") {
      if (const auto correlation = read_correlation(event))
        trace_.launches.push_back({read_interval(event).begin, threads_.number_of(event), *correlation});
    }
    if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") add_kernel(event);
  }

  Trace take() { return std::move(trace_); }

 private:
  void add_annotation(const JsonCursor& event) {
    const std::string_view name = text_or_empty(event, "name");
    if (name.starts_with("ProfilerStep#")) trace_.steps.push_back(read_interval(event).begin);
    const auto parse = names_.parse(name, event);
    if (!parse) return;
    Annotation& annotation = trace_.annotations.emplace_back();
    annotation.time = read_interval(event);
    annotation.thread = threads_.number_of(event);
    std::tie(annotation.kind, annotation.phase) = *parse;
    annotation.name = name;
  }

  void add_kernel(const JsonCursor& event) {
    if (text_or_empty(event, "name").starts_with("nccl")) {
      trace_.has_communication = true;
      return;
    }
    if (const auto correlation = read_correlation(event))
      trace_.kernels.push_back({read_interval(event), *correlation});
  }

  LayerNames names_;
  Threads threads_;
  Trace trace_;
};

/// Sorts by thread and begin, with outer annotations before inner ones.
void sort_annotations(std::vector<Annotation>& annotations) {
  std::stable_sort(annotations.begin(), annotations.end(), [](const Annotation& a, const Annotation& b) {
    return std::tuple(a.thread, a.time.begin, -a.time.end) < std::tuple(b.thread, b.time.begin, -b.time.end);
  });
}

/// Sweeps over the sorted annotations of all threads and keeps those that are open at the current time.
class OpenAnnotations {
 public:
  explicit OpenAnnotations(std::vector<Annotation>& annotations) : annotations_(annotations) {}

  /// The innermost annotation that is open at `time_us` on `thread`, or null. Calls must be in ascending
  /// order of (thread, time_us).
  Annotation* innermost(int thread, double time_us) {
    while (next_ < annotations_.size() &&
           std::pair(annotations_[next_].thread, annotations_[next_].time.begin) <=
               std::pair(thread, time_us))
      open_next();
    close_before(thread, time_us);
    return open_.empty() ? nullptr : open_.back();
  }

  /// Processes the remaining annotations, so that `nested_us` is complete.
  void finish() {
    while (next_ < annotations_.size()) open_next();
  }

 private:
  void open_next() {
    Annotation& annotation = annotations_[next_++];
    close_before(annotation.thread, annotation.time.begin);
    if (!open_.empty()) {
      const Interval& outer = open_.back()->time;
      open_.back()->nested_us += std::min(outer.end, annotation.time.end) - annotation.time.begin;
    }
    open_.push_back(&annotation);
  }

  void close_before(int thread, double time_us) {
    while (!open_.empty() && (open_.back()->thread != thread || open_.back()->time.end <= time_us))
      open_.pop_back();
  }

  std::vector<Annotation>& annotations_;
  std::vector<Annotation*> open_;
  std::size_t next_ = 0;
};

/// Attributes kernels to annotations through their launches. Each kernel is assigned to only one launch, so
/// that memory stays proportional to the file even if many launches have the same correlation number.
void assign_kernels(Trace& trace) {
  sort_annotations(trace.annotations);
  const auto by_correlation = [](const auto& a, const auto& b) { return a.correlation < b.correlation; };
  std::stable_sort(trace.kernels.begin(), trace.kernels.end(), by_correlation);
  std::stable_sort(trace.launches.begin(), trace.launches.end(), [](const Launch& a, const Launch& b) {
    return std::pair(a.thread, a.time_us) < std::pair(b.thread, b.time_us);
  });
  OpenAnnotations open(trace.annotations);
  for (const Launch& launch : trace.launches) {
    Annotation* annotation = open.innermost(launch.thread, launch.time_us);
    if (!annotation) continue;
    const auto [first, last] = std::equal_range(trace.kernels.begin(), trace.kernels.end(),
                                                Kernel{{}, launch.correlation}, by_correlation);
    for (auto kernel = first; kernel != last && !kernel->is_assigned; ++kernel) {
      annotation->kernels.push_back(kernel->time);
      kernel->is_assigned = true;
    }
  }
  open.finish();
}

double union_length(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  double sum = 0, covered_until = -HUGE_VAL;
  for (const Interval& it : intervals) {
    sum += std::max(0.0, it.end - std::max(it.begin, covered_until));
    covered_until = std::max(covered_until, it.end);
  }
  return sum;
}

/// Marks annotations of the first profiler step as warm-up or, if the trace has no steps, the first
/// annotation of each name. Nothing is marked if there would be no other sample.
void mark_warm_up(Trace& trace) {
  std::map<std::string_view, int> count;
  for (const Annotation& it : trace.annotations) ++count[it.name];
  std::sort(trace.steps.begin(), trace.steps.end());
  const bool has_later_step =
      trace.steps.size() > 1 &&
      std::any_of(trace.annotations.begin(), trace.annotations.end(),
                  [&](const Annotation& it) { return it.time.begin >= trace.steps[1]; });
  std::map<std::string_view, int> seen;
  for (Annotation& it : trace.annotations)
    it.is_warm_up = trace.steps.empty() ? count[it.name] > 1 && seen[it.name]++ == 0
                                        : has_later_step && it.time.begin < trace.steps[1];
}

double annotation_seconds(const Annotation& annotation, bool has_kernels, const std::string& file) {
  if (!has_kernels) return (annotation.time.end - annotation.time.begin - annotation.nested_us) / us_per_s;
  if (annotation.kernels.empty())
    throw Error(file,
                fmt::format("no kernel was launched within {} at {} us on its thread; backward annotations "
                            "must be made on the thread of autograd, by module hooks",
                            quote(annotation.name), annotation.time.begin));
  return union_length(annotation.kernels) / us_per_s;
}

}  // namespace

LayerProfile import_kineto(std::span<const ImportFile> files, const ImportSettings& settings) {
  const auto& [name, text] = files.front();
  const LayerKinds kinds = layer_kinds(settings.job.model, bytes_per_element(settings.job.training));
  TraceReader reader(LayerNames(kinds, settings.job.model));
  read_json_items(text, name, "traceEvents", [&](const JsonCursor& event) { reader.add_event(event); });
  Trace trace = reader.take();
  if (trace.annotations.empty())
    throw Error(
        name,
        "expected annotations like `layer.0.fwd` and `layer.0.bwd`, made by record_function; found none");
  assign_kernels(trace);
  mark_warm_up(trace);
  LayerSamples samples(kinds);
  for (const Annotation& it : trace.annotations)
    if (!it.is_warm_up)
      samples.add(it.kind, *settings.micro_batch, *settings.tensor, it.phase,
                  std::max(0.0, annotation_seconds(it, !trace.kernels.empty(), name)));
  LayerProfile profile = make_imported_profile(
      files, settings, "Kineto",
      fmt::format("{}; medians over layers and all steps except the first, spread between their 10th and "
                  "90th percentile{}",
                  trace.kernels.empty() ? "durations of annotations, because the trace has no kernels"
                                        : "unions of the kernels that each annotation launched",
                  trace.has_communication ? "; NCCL kernels are excluded" : ""));
  profile.rows = samples.rows(name);
  return profile;
}

}  // namespace dtfm::io
