#include "planner/request/scheme_options.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/io/text/parse_number.hpp"
#include "planner/api/schemes/scheme.hpp"

namespace dtfm::request {
namespace {

constexpr std::pair<const char*, api::SchemeOption> options[] = {
    {"--sync-every", api::SchemeOption::sync_every},
    {"--skip", api::SchemeOption::skip},
    {"--verify", api::SchemeOption::verification},
    {"--faulty-peers", api::SchemeOption::verification}};

}  // namespace

void add_scheme_parameter_options(OptionList& list, api::SchemeOptions& options) {
  add_option(list, "--sync-every", "N", "iterations between synchronizations [local-sgd: 16, diloco: 500]",
             [&](const std::string& text) {
               options.sync_every = io::parse_whole_number("--sync-every", text, 1, 10'000);
             });
  add_option(list, "--skip", "FRACTION", "skip-pipe: stages that each micro-batch skips [0.25]",
             [&](const std::string& text) { options.skip = io::parse_fraction_below_one("--skip", text); });
  add_option(
      list, "--verify", "FRACTION", "swarm: calls that a second peer recomputes [0]",
      [&](const std::string& text) { options.verify = io::parse_fraction_up_to_one("--verify", text); });
  add_option(list, "--faulty-peers", "FRACTION", "swarm: faulty (Byzantine) peers [0]",
             [&](const std::string& text) {
               options.faulty_share = io::parse_fraction_up_to_one("--faulty-peers", text);
             });
}

void check_scheme_options(const OptionList& list, const std::vector<std::string>& requested) {
  for (const auto& [name, option] : options) {
    std::vector<std::string_view> takers;
    for (const api::Scheme& it : api::schemes())
      if (it.option == option) takers.push_back(it.name);
    const bool is_taken = std::any_of(takers.begin(), takers.end(), [&](std::string_view taker) {
      return std::find(requested.begin(), requested.end(), taker) != requested.end();
    });
    if (is_taken) continue;
    reject_options(list, {name}, fmt::format("requires --scheme {}", fmt::join(takers, " or ")));
  }
}

}  // namespace dtfm::request
