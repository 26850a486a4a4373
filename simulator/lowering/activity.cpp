#include "simulator/lowering/activity.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/base/kind_table.hpp"

namespace dtfm::sim {
namespace {

struct ActivityName {
  Activity kind;
  std::string_view name;
};

constexpr auto activity_names = std::to_array<ActivityName>({{Activity::forward, "F"},
                                                             {Activity::backward, "B"},
                                                             {Activity::weight_gradient, "WG"},
                                                             {Activity::send_activations, "SA"},
                                                             {Activity::send_gradients, "SG"},
                                                             {Activity::all_reduce, "AR"},
                                                             {Activity::pass_keys, "KV"},
                                                             {Activity::all_to_all, "AA"},
                                                             {Activity::gradient_sync, "X"},
                                                             {Activity::all_gather, "G"},
                                                             {Activity::compress, "C"},
                                                             {Activity::update, "update"},
                                                             {Activity::wait, "W"},
                                                             {Activity::step, "step"},
                                                             {Activity::fetch, "fetch"},
                                                             {Activity::save_checkpoint, "save"}});
static_assert(has_row_for_each(activity_names, Activity::save_checkpoint));

/// The numbers of a label, by their letters, in the order of format_label.
auto numbers_of(auto& label) {
  return std::array{std::pair{'p', &label.pipeline},    std::pair{'s', &label.stage},
                    std::pair{'m', &label.micro_batch}, std::pair{'l', &label.layer},
                    std::pair{'r', &label.rank},        std::pair{'k', &label.phase}};
}

/// Reads a letter and a number that is not negative.
bool read_number(std::string_view word, char letter, int& number) {
  if (word.size() < 2 || word.front() != letter || word[1] == '-') return false;
  const char* end = word.data() + word.size();
  const auto [read, error] = std::from_chars(word.data() + 1, end, number);
  return error == std::errc() && read == end;
}

/// Reads "m17", or "d1>d5".
bool read_part(std::string_view word, TaskLabel& label) {
  for (const auto& [letter, number] : numbers_of(label))
    if (read_number(word, letter, *number)) return true;
  const std::size_t arrow = word.find('>');
  if (arrow == word.npos) return read_number(word, 'd', label.device);
  return read_number(word.substr(0, arrow), 'd', label.device) &&
         read_number(word.substr(arrow + 1), 'd', label.peer);
}

/// Names of such tasks need no device, because the stage (and rank) determine it.
bool is_of_pipeline(const TaskLabel& label) {
  return label.pipeline != no_index;
}

}  // namespace

std::string format_label(const TaskLabel& label) {
  std::string text(row_of(activity_names, label.activity).name);
  for (const auto& [letter, number] : numbers_of(label))
    if (*number != no_index) fmt::format_to(std::back_inserter(text), " {}{}", letter, *number);
  if (is_of_pipeline(label) || label.device == no_index) return text;
  fmt::format_to(std::back_inserter(text), " d{}", label.device);
  if (label.peer != no_index) fmt::format_to(std::back_inserter(text), ">d{}", label.peer);
  return text;
}

std::optional<TaskLabel> parse_label(std::string_view name) {
  const auto next_word = [&] {
    const std::string_view word = name.substr(0, name.find(' '));
    name.remove_prefix(std::min(name.size(), word.size() + 1));
    return word;
  };
  const std::string_view activity = next_word();
  const auto row = std::find_if(activity_names.begin(), activity_names.end(),
                                [&](const ActivityName& it) { return it.name == activity; });
  if (row == activity_names.end()) return std::nullopt;
  TaskLabel label;
  label.activity = row->kind;
  while (!name.empty())
    if (!read_part(next_word(), label)) return std::nullopt;
  return label;
}

}  // namespace dtfm::sim
