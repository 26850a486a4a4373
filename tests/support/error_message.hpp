// Returns the message of the Error that a function throws.
#pragma once

#include <string>

#include "core/base/error.hpp"

namespace dtfm {

template <class Action>
std::string error_message(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace dtfm
