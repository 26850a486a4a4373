// The extension module dtfm._core: the requests and answers of the library, without logic. python/dtfm makes
// them convenient.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/eigen/dense.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include "core/base/cores.hpp"
#include "core/base/index.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/writers/plan_json.hpp"
#include "core/plan/target_requirements.hpp"
#include "planner/api/devices/sub_topology.hpp"
#include "planner/api/pareto.hpp"
#include "planner/api/plan.hpp"
#include "planner/io/calibration_document.hpp"
#include "planner/io/comparison_document.hpp"
#include "planner/io/pareto_json.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/io/plan_notes.hpp"
#include "planner/io/simulation_document.hpp"
#include "planner/report/report.hpp"
#include "planner/report/report_html.hpp"
#include "planner/request/calibrate_options.hpp"
#include "planner/request/compare_options.hpp"
#include "planner/request/export_options.hpp"
#include "planner/request/plan_options.hpp"
#include "planner/request/read_plan_request.hpp"
#include "planner/request/simulate_options.hpp"
#include "python/binding/arguments.hpp"
#include "python/binding/running_work.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace dtfm::python {
namespace {

/// A call of the library: the options of its request, set from the arguments of the Python function.
template <class Options>
struct Call {
  Options options;
  request::OptionList list;

  explicit Call(void (*declare)(request::OptionList&, Options&)) { declare(list, options); }
};

void declare_plan(request::OptionList& list, request::PlanOptions& options) {
  add_plan_inputs(list, options);
  add_parallelism_options(list, options);
  add_search_options(list, options);
  add_simulation_options(list, options);
  add_given_plan_options(list, options);
  add_explain_option(list, options);
  add_flag(list, "--pareto", "also finds the Pareto front of time, cost and devices",
           options.keeps_pareto_front);
  add_threads_option(list, allowed_cores(), options.work.threads);
}

void declare_simulate(request::OptionList& list, request::SimulateOptions& options) {
  add_simulate_inputs(list, options);
  add_scheme_options(list, options);
  add_simulation_options(list, options);
  add_flag(list, "--timeline", "records the timeline of an iteration", options.records_timeline);
  add_threads_option(list, allowed_cores(), options.work.threads);
}

void declare_compare(request::OptionList& list, request::CompareOptions& options) {
  add_compare_inputs(list, options);
  add_scheme_options(list, options);
  add_simulation_options(list, options);
  add_threads_option(list, allowed_cores(), options.work.threads);
}

void declare_calibrate(request::OptionList& list, request::CalibrateOptions& options) {
  add_calibrate_inputs(list, options);
  add_threads_option(list, allowed_cores(), options.work.threads);
}

void declare_export(request::OptionList& list, request::ExportOptions& options) {
  add_export_inputs(list, options);
  add_target_options(list, options);
  add_launch_options(list, options);
  add_option(list, "--folder", "DIR", "output folder; created if it does not exist",
             [&](const std::string& text) { options.folder = text; });
  add_force_option(list, options);
}

/// Rows for the signature and the documentation of a Python function.
template <class Options>
nb::list describe(void (*declare)(request::OptionList&, Options&)) {
  const Call<Options> call(declare);
  nb::list rows;
  for (const request::Option& option : call.list.options) {
    nb::dict row;
    row["name"] = python_name(option);
    row["is_flag"] = option.kind == request::OptionKind::flag;
    row["may_repeat"] = option.may_repeat;
    row["input"] = static_cast<int>(option.input);
    row["values"] = option.values;
    row["choices"] = completion_values(option);
    row["heading"] = option.heading;
    row["help"] = in_python_terms(option.help);
    rows.append(row);
  }
  return rows;
}

constexpr const char* this_program = "dtfm " DTFM_VERSION;

/// The page that `make(StopFunction)` returns; nothing if this was built without it.
template <class Make>
std::optional<std::string> report_of(const Make& make) {
  if (!report::has_page()) return std::nullopt;
  return run_released({}, [&](const RunningWork& running) { return make(running.stop()); });
}

struct PlanResult {
  api::PlanAnswer answer;
  bool is_interrupted = false;

  std::string json() const { return io::format_json(io::plan_document(answer)); }
  std::optional<std::string> pareto_json() const {
    if (!answer.front) return std::nullopt;
    return io::pareto_json(answer);
  }
  std::optional<std::string> report() const {
    return report_of(
        [&](const StopFunction& stop) { return report::plan_report(this_program, answer, stop); });
  }
};

PlanResult run_plan(const Arguments& arguments, const std::optional<Progressed>& progress) {
  Call call(declare_plan);
  set_options(call.list, arguments);
  check_plan_options(call.list, call.options);
  call.options.work.threads = usable_threads(call.options.work.threads);
  return run_released(progress, [&](const RunningWork& running) {
    request::PlanTask task = read_plan_task(call.options);
    auto& common = task.request.options.common;
    common.begin = call.options.begin;
    common.stop = running.stop();
    common.on_progress = running.on_progress();
    return PlanResult{run(task, call.options), running.is_stopped()};
  });
}

struct SimulationResult {
  api::SimulateRequest request;
  api::SimulateResult result;
  bool is_interrupted = false;

  std::string json() const { return io::format_json(io::simulation_document(request, result)); }
  std::optional<std::string> report() const {
    return report_of([&](const StopFunction&) {
      return report::simulation_report(this_program, request, result,
                                       io::simulation_document(request, result));
    });
  }
};

SimulationResult run_simulate(const Arguments& arguments, const std::optional<Progressed>& progress) {
  Call call(declare_simulate);
  set_options(call.list, arguments);
  check_simulate_options(call.list, call.options);
  call.options.work.threads = usable_threads(call.options.work.threads);
  return run_released(progress, [&](const RunningWork& running) {
    SimulationResult made{read_simulate_request(call.options), {}};
    made.request.work.stop = running.stop();
    made.request.work.on_progress = running.on_progress();
    made.result = api::simulate(made.request);
    // What refers to this call must not outlive it.
    made.request.work = {};
    if (!made.result.has_layout() && running.is_stopped()) throw WorkStopped();
    if (!made.result.has_layout())
      throw NotRunnable(fmt::format("no layout of {}: {}", *call.options.scheme,
                                    io::format_no_layout(*made.result.chosen, made.request.problem)));
    made.is_interrupted = running.is_stopped();
    return made;
  });
}

struct ComparisonResult {
  api::CompareRequest request;
  api::Comparison comparison;

  std::string json() const { return io::format_json(io::comparison_document(request, comparison)); }
  std::optional<std::string> report() const {
    return report_of([&](const StopFunction&) {
      return report::comparison_report(this_program, request.problem,
                                       io::comparison_document(request, comparison));
    });
  }
};

ComparisonResult run_compare(const Arguments& arguments, const std::optional<Progressed>& progress) {
  Call call(declare_compare);
  set_options(call.list, arguments);
  check_compare_options(call.list, call.options);
  call.options.work.threads = usable_threads(call.options.work.threads);
  return run_released(progress, [&](const RunningWork& running) {
    ComparisonResult made{read_compare_request(call.options), {}};
    made.request.work.stop = running.stop();
    made.request.work.on_progress = running.on_progress();
    made.comparison = api::compare(made.request);
    made.request.work = {};
    return made;
  });
}

struct CalibrationResult {
  api::CalibrateRequest request;
  api::CalibrateResult result;

  std::string json() const { return io::format_json(io::calibration_document(request, result)); }
  /// Name with its unit, fitted value, and the ends of its interval, of each constant.
  std::vector<std::tuple<std::string, double, double, double>> constants() const {
    std::vector<std::tuple<std::string, double, double, double>> rows;
    const sim::CalibrationFit& fit = result.fit;
    for (std::size_t i = 0; i < calibration_constants.size(); ++i) {
      const CalibrationConstant& it = calibration_constants[i];
      const bool is_time = it.kind == CalibrationConstant::Kind::seconds;
      rows.emplace_back(fmt::format("{}{}", it.name, is_time ? "_s" : ""), fit.constants.*it.value,
                        fit.intervals[i].low, fit.intervals[i].high);
    }
    if (const auto& memory = fit.process_memory)
      rows.emplace_back("process_memory_bytes", fit.constants.process_memory_bytes, memory->first,
                        memory->second);
    return rows;
  }
};

CalibrationResult run_calibrate(const Arguments& arguments, const std::optional<Progressed>& progress) {
  Call call(declare_calibrate);
  set_options(call.list, arguments);
  check_calibrate_options(call.options);
  call.options.work.threads = usable_threads(call.options.work.threads);
  return run_released(progress, [&](const RunningWork& running) {
    CalibrationResult made{read_calibrate_request(call.options), {}};
    made.request.work.stop = running.stop();
    made.request.work.on_progress = running.on_progress();
    made.result = api::calibrate(made.request);
    made.request.work = {};
    return made;
  });
}

std::string run_export(const Arguments& arguments) {
  Call call(declare_export);
  set_options(call.list, arguments);
  check_export_options(call.options);
  const nb::gil_scoped_release released;
  request::ExportAnswer answer = make_export(call.options);
  write_export(call.options, answer);
  return io::format_json(export_document(call.options, answer));
}

request::TopologyInput make_topology(const nb::bytes& text, const std::string& name,
                                     const std::string& folder, std::optional<Eigen::MatrixXd> latency_s,
                                     std::optional<Eigen::MatrixXd> bandwidth_bps) {
  std::string document(text.c_str(), text.size());
  const nb::gil_scoped_release released;
  Topology topology = io::parse_topology(std::move(document), name, folder);
  if (latency_s && bandwidth_bps)
    io::set_measured_links(topology, *std::move(latency_s), *std::move(bandwidth_bps));
  return {name, std::move(topology)};
}

/// [from, to], with 0 on the diagonal.
template <class Value>
Eigen::MatrixXd matrix_of(const Topology& topology, const Value& value) {
  Eigen::MatrixXd matrix = Eigen::MatrixXd::Zero(topology.size(), topology.size());
  for (int from = 0; from < topology.size(); ++from)
    for (int to = 0; to < topology.size(); ++to)
      if (from != to) matrix(from, to) = value(topology.link(from, to));
  return matrix;
}

nb::dict device_dict(const Topology& topology, int number) {
  const Device& device = topology.devices[at(number)];
  nb::dict row;
  row["id"] = device.id;
  row["site"] = topology.sites[at(device.site)].name;
  row["host"] = device.host;
  if (device.gpu >= 0) {
    row["gpu"] = topology.gpus[at(device.gpu)].name;
    row["memory_bytes"] = topology.gpus[at(device.gpu)].memory.value();
  }
  row["speed"] = device.speed;
  if (const auto price = price_of(topology, number)) row["price_usd_per_h"] = price->value();
  return row;
}

request::TopologyInput without(const request::TopologyInput& input, const std::vector<std::string>& devices) {
  const Topology& whole = **input.value;
  std::vector<std::string_view> ids;
  for (const Device& device : whole.devices) ids.push_back(device.id);
  std::vector<bool> is_included(ids.size(), true);
  for (const std::string& id : devices) {
    const auto found = std::find(ids.begin(), ids.end(), id);
    if (found == ids.end()) io::fail_unknown("", "unknown device", id, ids);
    is_included[static_cast<std::size_t>(found - ids.begin())] = false;
  }
  if (std::count(is_included.begin(), is_included.end(), true) == 0) throw Error("", "no device is left");
  return {input.name, api::sub_topology(whole, is_included).topology};
}

nb::list devices_of(const request::TopologyInput& input) {
  const Topology& topology = **input.value;
  nb::list rows;
  for (int number = 0; number < topology.size(); ++number) rows.append(device_dict(topology, number));
  return rows;
}

/// Columns of all spans of the recorded iteration, by start on each device.
nb::dict timeline_columns(const SimulationResult& made) {
  nb::dict columns;
  if (!made.result.timeline) return columns;
  std::vector<int> device, micro_batch;
  std::vector<double> start_s, end_s;
  std::vector<std::string_view> kind, track;
  constexpr std::string_view tracks[] = {"compute", "send", "receive"};
  for (const sim::TimelineRow& row : made.result.timeline->rows)
    for (const sim::TimelineSpan& span : row.spans) {
      device.push_back(row.device);
      micro_batch.push_back(span.micro_batch);
      start_s.push_back(span.start);
      end_s.push_back(span.end);
      kind.push_back(name_of(span.kind));
      track.push_back(tracks[static_cast<std::size_t>(row.track)]);
    }
  columns["device"] = device;
  columns["track"] = track;
  columns["kind"] = kind;
  columns["micro_batch"] = micro_batch;
  columns["start_s"] = start_s;
  columns["end_s"] = end_s;
  return columns;
}

/// Raises the Python exceptions of dtfm.errors for those of the library.
void translate_exceptions(nb::module_& module) {
  static nb::object input_error, infeasible_error;  // NOLINT: nanobind's translators are global functions
  module.def("set_exceptions", [](nb::object input, nb::object infeasible) {
    input_error = std::move(input);
    infeasible_error = std::move(infeasible);
  });
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const NotRunnable& error) {
      PyErr_SetObject(infeasible_error.ptr(), nb::str(in_python_terms(error.what()).c_str()).ptr());
    } catch (const Error& error) {
      const nb::tuple arguments =
          nb::make_tuple(in_python_terms(error.where()), in_python_terms(error.problem()));
      PyErr_SetObject(input_error.ptr(), arguments.ptr());
    } catch (const WorkStopped&) {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  });
  nb::object atexit = nb::module_::import_("atexit");
  atexit.attr("register")(nb::cpp_function([] {
    end_all_work();
    input_error.reset();
    infeasible_error.reset();
  }));
}

nb::bytes read_text(const std::string& path) {
  const std::string text = [&] {
    const nb::gil_scoped_release released;
    return io::read_file(path, io::yaml_size_limit);
  }();
  return nb::bytes(text.data(), text.size());
}

void bind_inputs(nb::module_& module) {
  module.def("read_text", read_text, "path"_a);
  nb::class_<request::TopologyInput>(module, "Topology")
      .def_static("make", make_topology, "text"_a, "name"_a, "folder"_a, "latency_s"_a = nb::none(),
                  "bandwidth_bps"_a = nb::none())
      .def_prop_ro("name", [](const request::TopologyInput& it) { return (*it.value)->name; })
      .def_prop_ro("fingerprint", [](const request::TopologyInput& it) { return (*it.value)->fingerprint(); })
      .def("__len__", [](const request::TopologyInput& it) { return (*it.value)->size(); })
      .def("without", without)
      .def("devices", devices_of)
      .def("latency_s",
           [](const request::TopologyInput& it) {
             return matrix_of(**it.value, [](const Link& link) { return link.latency.value(); });
           })
      .def("bandwidth_bps", [](const request::TopologyInput& it) {
        return matrix_of(**it.value, [](const Link& link) { return link.bandwidth.value(); });
      });
  nb::class_<request::JobInput>(module, "Job")
      .def_static("read",
                  [](const std::string& path) {
                    const nb::gil_scoped_release released;
                    return request::JobInput(path, io::read_job(path));
                  })
      .def_static("make",
                  [](std::string text, const std::string& name) {
                    const nb::gil_scoped_release released;
                    return request::JobInput(name, io::parse_job(std::move(text), name));
                  })
      .def_prop_ro("name", [](const request::JobInput& it) { return it.value->name; })
      .def("json", [](const request::JobInput& it) { return io::format_json(io::job_json(*it.value)); });
  nb::class_<request::PlanFileInput>(module, "PlanFile")
      .def_static("make", [](std::string text, const std::string& name) {
        const nb::gil_scoped_release released;
        return request::PlanFileInput(name, io::make_plan_source({name, std::move(text)}, std::nullopt));
      });
  nb::class_<request::TextInput>(module, "Text")
      .def_static("make", [](std::string text, const std::string& name) {
        return request::TextInput(name, std::move(text));
      });
}

void bind_results(nb::module_& module) {
  nb::class_<PlanResult>(module, "PlanResult")
      .def("json", &PlanResult::json, nb::call_guard<nb::gil_scoped_release>())
      .def("pareto_json", &PlanResult::pareto_json, nb::call_guard<nb::gil_scoped_release>())
      .def("report", &PlanResult::report)
      .def_ro("is_interrupted", &PlanResult::is_interrupted)
      .def_prop_ro("is_feasible", [](const PlanResult& it) { return it.answer.is_feasible(); });
  nb::class_<SimulationResult>(module, "SimulationResult")
      .def("json", &SimulationResult::json, nb::call_guard<nb::gil_scoped_release>())
      .def("report", &SimulationResult::report)
      .def("timeline", timeline_columns)
      .def_ro("is_interrupted", &SimulationResult::is_interrupted)
      .def_prop_ro("is_feasible", [](const SimulationResult& it) { return it.result.is_feasible(); });
  nb::class_<CalibrationResult>(module, "CalibrationResult")
      .def("json", &CalibrationResult::json, nb::call_guard<nb::gil_scoped_release>())
      .def("constants", &CalibrationResult::constants);
  nb::class_<ComparisonResult>(module, "ComparisonResult")
      .def("json", &ComparisonResult::json, nb::call_guard<nb::gil_scoped_release>())
      .def("report", &ComparisonResult::report)
      .def_prop_ro("is_interrupted", [](const ComparisonResult& it) { return it.comparison.is_interrupted; })
      .def_prop_ro("is_feasible", [](const ComparisonResult& it) { return it.comparison.is_any_feasible(); });
}

}  // namespace
}  // namespace dtfm::python

NB_MODULE(_core, module) {
  using namespace dtfm::python;
  watch_forks();
  module.attr("__version__") = DTFM_VERSION;
  translate_exceptions(module);
  bind_inputs(module);
  bind_results(module);
  module.def("plan", run_plan, "arguments"_a, "progress"_a = nb::none());
  module.def("simulate", run_simulate, "arguments"_a, "progress"_a = nb::none());
  module.def("compare", run_compare, "arguments"_a, "progress"_a = nb::none());
  module.def("calibrate", run_calibrate, "arguments"_a, "progress"_a = nb::none());
  module.def("export", run_export, "arguments"_a);
  nb::dict options;
  options["plan"] = describe(declare_plan);
  options["simulate"] = describe(declare_simulate);
  options["compare"] = describe(declare_compare);
  options["calibrate"] = describe(declare_calibrate);
  options["export"] = describe(declare_export);
  module.attr("options") = options;
}
