// The inputs of requests: files, or what a caller has read or made already.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/shared.hpp"
#include "core/cluster/topology.hpp"
#include "core/io/importers/foreign_plan.hpp"
#include "core/plan/job.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::request {

/// A file that is read when it is needed, or a value.
template <class T>
struct Input {
  std::string name;                     // of the file, or what messages call the value
  std::shared_ptr<const T> value = {};  // empty: in the file

  Input() = default;
  Input(std::string file) : name(std::move(file)) {}  // NOLINT: options are assigned names of files
  Input(std::string message_name, T given)
      : name(std::move(message_name)), value(std::make_shared<const T>(std::move(given))) {}

  bool is_given() const { return value || !name.empty(); }
};

using TopologyInput = Input<Shared<Topology>>;
using JobInput = Input<Job>;
using PlanFileInput = Input<io::PlanSource>;
using TextInput = Input<std::string>;  // of a file whose meaning depends on other inputs

enum class InputKind { none, topology, job, plan, text };
using AnyInput = std::variant<TopologyInput, JobInput, PlanFileInput, TextInput>;

template <class T>
inline constexpr InputKind input_kind = InputKind::none;
template <>
inline constexpr InputKind input_kind<TopologyInput> = InputKind::topology;
template <>
inline constexpr InputKind input_kind<JobInput> = InputKind::job;
template <>
inline constexpr InputKind input_kind<PlanFileInput> = InputKind::plan;
template <>
inline constexpr InputKind input_kind<TextInput> = InputKind::text;

/// The name of the file, or empty for a value or nothing: for checks that no output overwrites an input.
template <class T>
std::string file_of(const Input<T>& input) {
  return input.value ? "" : input.name;
}
template <class T>
std::string file_of(const std::optional<Input<T>>& input) {
  return input ? file_of(*input) : "";
}

/// The value, or that of the file. Throws Error as the reader of the file does. A value counts as read from
/// the file of its name (core/io/text/read_log.hpp), from which it may have been read before.
Shared<Topology> read(const TopologyInput& input);
Job read(const JobInput& input);
/// `ranks`: the device of each rank of a Megatron-LM plan; only for a plan in a file.
io::PlanSource read_plan(const PlanFileInput& input, const std::optional<TextInput>& ranks);
sim::Scenario read_scenario(const TextInput& input, const Topology& topology);
/// The text with its name. `limit`: the largest file, in bytes.
io::NamedFile read_text(const TextInput& input, std::size_t limit);

}  // namespace dtfm::request
