#include "planner/io/text/faults.hpp"

#include <fmt/format.h>

namespace dtfm::io {
namespace {

constexpr std::size_t most_told = 20;  // a screen of a terminal

}  // namespace

void Faults::add(const std::string& where, const std::string& what) {
  if (++count_ <= most_told) told_.emplace_back(where, what);
}

void Faults::add(const std::string& where, const std::function<std::string()>& what) {
  if (++count_ <= most_told) told_.emplace_back(where, what());
}

void Faults::add(const Error& error) {
  const std::size_t prefix = error.where().empty() ? 0 : error.where().size() + 2;  // "where: "
  add(error.where(), std::string(error.what()).substr(prefix));
}

void Faults::throw_if_any(const std::string& closing) const {
  if (empty()) return;
  std::string text = told_.front().second;
  for (std::size_t i = 1; i < told_.size(); ++i)
    text += fmt::format("\n{}: {}", told_[i].first, told_[i].second);
  if (count_ > told_.size())
    text +=
        fmt::format("\n… and {} more fault{}", count_ - told_.size(), count_ == told_.size() + 1 ? "" : "s");
  if (!closing.empty()) text += "\n" + closing;
  throw Error(told_.front().first, text);
}

}  // namespace dtfm::io
