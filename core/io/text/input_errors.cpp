#include "core/io/text/input_errors.hpp"

#include <fmt/format.h>

namespace dtfm::io {
namespace {

constexpr std::size_t max_reported = 20;  // fits on a terminal screen

}  // namespace

void InputErrors::add(const std::string& where, const std::string& what) {
  if (++count_ <= max_reported) reported_.emplace_back(where, what);
}

void InputErrors::add(const std::string& where, const std::function<std::string()>& what) {
  if (++count_ <= max_reported) reported_.emplace_back(where, what());
}

void InputErrors::add(const Error& error) {
  add(error.where(), error.problem());
}

void InputErrors::throw_if_any(const std::string& closing) const {
  if (empty()) return;
  std::string text = reported_.front().second;
  for (std::size_t i = 1; i < reported_.size(); ++i)
    text += fmt::format("\n{}: {}", reported_[i].first, reported_[i].second);
  if (count_ > reported_.size())
    text += fmt::format("\n… and {} more error{}", count_ - reported_.size(),
                        count_ == reported_.size() + 1 ? "" : "s");
  if (!closing.empty()) text += "\n" + closing;
  throw Error(reported_.front().first, text);
}

}  // namespace dtfm::io
