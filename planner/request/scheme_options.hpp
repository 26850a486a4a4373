// Options that apply to some schemes only.
#pragma once

#include <string>
#include <vector>

#include "planner/api/schemes/scheme.hpp"
#include "planner/request/option_list.hpp"

namespace dtfm::request {

/// Declares --sync-every, --skip, --verify and --faulty-peers.
void add_scheme_parameter_options(OptionList& list, api::SchemeOptions& options);

/// Throws Error for an option that none of the `requested` schemes uses.
void check_scheme_options(const OptionList& list, const std::vector<std::string>& requested);

}  // namespace dtfm::request
