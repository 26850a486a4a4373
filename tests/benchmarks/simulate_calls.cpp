// Calls the library's `simulate` many times, for simulate_calls.py.
// usage: benchmark_simulate_calls TOPOLOGY PLAN CALLS    (prints the mean seconds of a call)
#include <chrono>
#include <cstdio>
#include <string>

#include "planner/api/simulate.hpp"
#include "planner/request/simulate_options.hpp"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  dtfm::request::SimulateOptions options;
  options.topology = {argv[1]};
  options.plan = {argv[2]};
  const dtfm::api::SimulateRequest request = read_simulate_request(options);
  const int calls = std::stoi(argv[3]);
  double sum = 0;  // keeps the calls
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) sum += dtfm::api::simulate(request).report.length_s;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::printf("%.9f %.3f\n", elapsed.count() / calls, sum);
}
