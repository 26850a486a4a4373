#include "simulator/lowering/activity.hpp"

#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace dtfm::sim {
namespace {

std::string_view letter_of(Activity activity) {
  switch (activity) {
    case Activity::forward:
      return "F";
    case Activity::backward:
      return "B";
    case Activity::weight_gradient:
      return "WG";
    case Activity::send_activations:
      return "SA";
    case Activity::send_gradients:
      return "SG";
    case Activity::all_reduce:
      return "AR";
    case Activity::gradient_sync:
      return "X";
    case Activity::all_gather:
      return "G";
    case Activity::compress:
      return "C";
    case Activity::update:
      return "update";
    case Activity::wait:
      return "W";
    case Activity::step:
      return "step";
    case Activity::fetch:
      return "fetch";
    case Activity::save_checkpoint:
      return "save";
  }
  return "";
}

/// Names of such tasks need no device, because the stage (and rank) determine it.
bool is_of_pipeline(const TaskLabel& label) {
  return label.pipeline != no_index;
}

}  // namespace

std::string format_label(const TaskLabel& label) {
  std::string text(letter_of(label.activity));
  const std::pair<char, int> parts[] = {{'p', label.pipeline}, {'s', label.stage}, {'m', label.micro_batch},
                                        {'l', label.layer},    {'r', label.rank},  {'k', label.phase}};
  for (const auto& [letter, number] : parts)
    if (number != no_index) fmt::format_to(std::back_inserter(text), " {}{}", letter, number);
  if (is_of_pipeline(label) || label.device == no_index) return text;
  fmt::format_to(std::back_inserter(text), " d{}", label.device);
  if (label.peer != no_index) fmt::format_to(std::back_inserter(text), ">d{}", label.peer);
  return text;
}

}  // namespace dtfm::sim
