#include "cli/common/scheme_options.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/command_line.hpp"
#include "planner/api/schemes/scheme.hpp"

namespace dtfm::cli {
namespace {

constexpr std::pair<const char*, api::SchemeOption> options[] = {
    {"--sync-every", api::SchemeOption::sync_every},
    {"--skip", api::SchemeOption::skip},
    {"--verify", api::SchemeOption::verification},
    {"--lying", api::SchemeOption::verification}};

}  // namespace

void check_scheme_options(const CLI::App& app, const std::vector<std::string>& requested) {
  for (const auto& [name, option] : options) {
    std::vector<std::string_view> takers;
    for (const api::Scheme& it : api::schemes())
      if (it.option == option) takers.push_back(it.name);
    const bool is_taken = std::any_of(takers.begin(), takers.end(), [&](std::string_view taker) {
      return std::find(requested.begin(), requested.end(), taker) != requested.end();
    });
    if (is_taken) continue;
    reject_options(
        app, {name},
        fmt::format("is of scheme{} {} alone", takers.size() > 1 ? "s" : "", fmt::join(takers, " and ")));
  }
}

}  // namespace dtfm::cli
