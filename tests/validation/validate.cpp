// Prints measured and simulated iteration times. usage: dtfm_validate FOLDER
#include <cstdio>

#include <fmt/core.h>
#include <omp.h>

#include "planner/core/error.hpp"
#include "simulator/io/constants_reader.hpp"
#include "tests/validation/measured_runs.hpp"

namespace dtfm {
namespace {

void print(const char* what, const SimConstants& constants) {
  fmt::print(
      "{:16} compute scale {:.4f}, message overhead {:.3f} ms, network efficiency {:.4f}, "
      "iteration overhead {:.3f} s\n",
      what, constants.compute_scale, constants.message_overhead_s * 1e3, constants.network_efficiency,
      constants.iteration_overhead_s);
}

void validate(const std::string& folder) {
  const std::vector<MeasuredRun> runs = read_measured_runs(folder);
  const int threads = omp_get_max_threads();
  const SimConstants built_in = built_in_constants();
  const std::vector<double> errors = relative_errors(runs, built_in, threads);
  fmt::print("{:12} {:42} {:>9} {:>10} {:>7}\n", "network", "run", "measured", "simulated", "error");
  for (std::size_t i = 0; i < runs.size(); ++i)
    fmt::print("{:12} {:42} {:7.2f} s {:8.2f} s {:+6.1f} %\n", runs[i].network, runs[i].name, runs[i].seconds,
               runs[i].seconds * (1 + errors[i]), 100 * errors[i]);
  fmt::print("\nmean absolute error {:.1f} %\n\n", 100 * mean_of(errors));
  print("in use", built_in);
  const KnownConstants known = measured_by_themselves();
  print("fitted to all", fitted_constants(runs, known, threads));
  print("all four fitted", fitted_constants(runs, {}, threads));
  for (const LeftOut& left_out : errors_left_out(runs, known, threads)) {
    print("fitted without", left_out.constants);
    fmt::print("  {:14} mean absolute error there {:.1f} %\n", left_out.network,
               100 * mean_of(left_out.errors));
  }
}

}  // namespace
}  // namespace dtfm

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: dtfm_validate FOLDER\n", stderr);
    return 2;
  }
  try {
    dtfm::validate(arguments[1]);
  } catch (const dtfm::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
