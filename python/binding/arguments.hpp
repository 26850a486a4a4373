// Sets the options of a request from the arguments of a Python function.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/request/option_list.hpp"

namespace dtfm::python {

/// A text in the notation of the command line, or a value in place of a file.
using Argument = std::variant<std::string, request::AnyInput>;
/// Options by name, "micro_batch" or, of an argument of a program, "topology"; a flag has no values.
using Arguments = std::vector<std::pair<std::string, std::vector<Argument>>>;

/// "micro_batch", of the option --micro-batch, or "topology", of the argument TOPOLOGY.
std::string python_name(const request::Option& option);

/// Calls what sets the options. Throws Error for an unknown name, with a suggestion, and for values of the
/// wrong kind.
void set_options(request::OptionList& list, const Arguments& arguments);

/// The message with options as they are called in Python: "horizon requires warm_start".
std::string in_python_terms(const std::string& message);

}  // namespace dtfm::python
