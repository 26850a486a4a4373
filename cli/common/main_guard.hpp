// Turns exceptions that leave a command into one line on stderr and an exit code.
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include <signal.h>

#include <fmt/format.h>

#include "cli/common/print_error.hpp"
#include "core/base/error.hpp"
#include "core/plan/target_requirements.hpp"
#include "core/io/text/control_characters.hpp"

namespace dtfm::cli {

namespace exit_code {
inline constexpr int done = 0, internal_error = 1, bad_input = 2, infeasible = 3, interrupted = 130;
}

/// Returns the exit code of `body`, or the one for the exception that left it.
template <class Body>
int run_guarded(std::string_view program, const Body& body) {
  // Without these signals, exceeding `ulimit -f` or writing to a closed pipe is an ordinary write error.
  for (const int kind : {SIGXFSZ, SIGPIPE}) ::signal(kind, SIG_IGN);
  const auto complain = [&](std::string_view what) {
    print_error(fmt::format("{}: {}\n", program, io::escape_control_characters(what, "\n")));
  };
  try {
    return body();
  } catch (const NotRunnable& error) {
    complain(error.what());
    return exit_code::infeasible;
  } catch (const Error& error) {
    complain(error.what());
    return exit_code::bad_input;
  } catch (const std::bad_alloc&) {
    complain("internal error: out of memory");
  } catch (const std::exception& error) {
    complain(fmt::format("internal error: {}", error.what()));
  }
  return exit_code::internal_error;
}

}  // namespace dtfm::cli
