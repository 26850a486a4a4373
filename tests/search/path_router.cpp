#include "planner/search/path_routing/path_router.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "planner/search/path_routing/path_dispatch.hpp"
#include "planner/search/path_routing/reservations.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/exhaustive_makespan.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::search;
using namespace dtfm::sim;

namespace {

/// A network in which each pair of devices has a link of its own, and all messages of a sender share another.
struct TestNetwork {
  int devices = 0;
  std::vector<double> seconds_per_byte, latency_s;  // [from · devices + to]
  std::vector<std::vector<int>> links;

  Message message(int from, int to, double bytes) const {
    const std::size_t pair = at(from) * at(devices) + at(to);
    return {bytes * seconds_per_byte[pair], latency_s[pair], links[pair]};
  }
};

/// Random devices and links. Times are multiples of 0.25 s, so that many events coincide.
struct Instance {
  RoutingProblem problem;
  TestNetwork test_network;

  Instance(int stages, int skipped, int micro_batches, int max_devices, Rng& rng, bool uniform = false) {
    const auto quarters = [&](std::uint32_t most) { return 0.25 * (1 + rng.below(most)); };
    for (int stage = 0; stage < stages; ++stage) {
      problem.stages.emplace_back();
      const int count = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(max_devices)));
      for (int d = 0; d < count; ++d) {
        StageResource it{{d, stage}, 1, 2, 1};
        if (!uniform) it = {{d, stage}, quarters(4), quarters(8), 1, 1 + static_cast<int>(rng.below(6))};
        problem.stages.back().push_back(it);
        ++test_network.devices;
      }
    }
    for (int from = 0; from < test_network.devices; ++from)
      for (int to = 0; to < test_network.devices; ++to) {
        test_network.seconds_per_byte.push_back(uniform ? 0 : quarters(4) - 0.25);
        test_network.latency_s.push_back(quarters(8) - 0.25);
        test_network.links.push_back(
            {from * test_network.devices + to, test_network.devices * test_network.devices + from});
      }
    problem.micro_batches = micro_batches;
    problem.skipped = skipped;
    problem.message = [this](int from, int to, double bytes) {
      return test_network.message(from, to, bytes);
    };
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  int number_of(const Visit& place) const {  // index by which `message` knows the device
    int number = place.pipeline;
    for (int stage = 0; stage < place.stage; ++stage)
      number += static_cast<int>(problem.stages[at(stage)].size());
    return number;
  }
  const StageResource& resource(const Visit& place) const {
    return problem.stages[at(place.stage)][at(place.pipeline)];
  }
};

/// Returns the computations of each micro-batch in order, with device and time.
std::vector<std::vector<std::pair<Visit, Interval>>> computations_of(const Routing& routing) {
  std::vector<std::vector<std::pair<Visit, Interval>>> all(routing.schedule.paths.size());
  for (std::size_t i = 0; i < routing.schedule.order.size(); ++i) {
    const std::size_t number = at(routing.schedule.order[i]);
    const std::vector<Visit>& path = routing.schedule.paths[number];
    const std::size_t turn = all[number].size();
    all[number].emplace_back(path[turn < path.size() ? turn : 2 * path.size() - 1 - turn],
                             routing.planned[i]);
  }
  return all;
}

void check_paths(const Instance& instance, const Routing& routing) {
  const RoutingProblem& problem = instance.problem;
  const int last = static_cast<int>(problem.stages.size()) - 1;
  std::map<int, int> of_stage;
  std::map<std::pair<int, int>, int> of_device;
  REQUIRE(routing.schedule.paths.size() == at(problem.micro_batches));
  for (const std::vector<Visit>& path : routing.schedule.paths) {
    REQUIRE(path.size() == at(last + 1 - problem.skipped));
    REQUIRE(path.front().stage == 0);
    REQUIRE(path.back().stage == last);
    std::set<int> stages;
    for (std::size_t i = 0; i < path.size(); ++i) {
      REQUIRE(stages.insert(path[i].stage).second);
      ++of_stage[path[i].stage];
      ++of_device[{path[i].stage, path[i].pipeline}];
      if (i == 0 || path[i].stage > path[i - 1].stage) continue;
      REQUIRE(problem.allow_swaps);
      REQUIRE(path[i].stage + 1 == path[i - 1].stage);
      REQUIRE((path[i].stage > 0 && path[i - 1].stage < last));
    }
  }
  int least = problem.micro_batches, most = 0;
  for (int stage = 1; stage < last; ++stage) {
    least = std::min(least, of_stage[stage]);
    most = std::max(most, of_stage[stage]);
  }
  CHECK(most - least <= (last > 1 ? 1 : problem.micro_batches));
  for (int stage = 0; stage <= last; ++stage) {
    double speeds = 0;
    for (const StageResource& it : problem.stages[at(stage)]) speeds += 1 / (it.forward_s + it.backward_s);
    for (const StageResource& it : problem.stages[at(stage)]) {
      const double share = of_stage[stage] / (it.forward_s + it.backward_s) / speeds;
      CHECK(std::abs(of_device[{stage, it.place.pipeline}] - share) < 1);
    }
  }
}

/// Checks that no device computes two things at once, before its inputs have arrived, or holds more
/// micro-batches than permitted.
void check_times(const Instance& instance, const Routing& routing) {
  std::map<std::pair<int, int>, Reservations> busy;  // throws if two intervals overlap
  std::map<std::pair<int, int>, std::vector<Interval>> held;
  for (const auto& its : computations_of(routing)) {
    const std::size_t visits = its.size() / 2;
    for (std::size_t i = 0; i < its.size(); ++i) {
      const auto& [place, time] = its[i];
      const StageResource& resource = instance.resource(place);
      busy[{place.stage, place.pipeline}].reserve(time);
      CHECK(time.end - time.begin == Approx(i < visits ? resource.forward_s : resource.backward_s));
      if (i < visits)
        held[{place.stage, place.pipeline}].push_back({time.begin, its[its.size() - 1 - i].second.end});
      if (i == 0) continue;
      const auto& [before, earlier] = its[i - 1];
      double there = earlier.end;
      if (i != visits) {
        const Message message =
            instance.test_network.message(instance.number_of(before), instance.number_of(place), 1);
        there += message.busy_s + message.latency_s;
      }
      CHECK(time.begin >= there - 1e-9);
    }
  }
  for (const auto& [where, intervals] : held)
    for (const Interval& it : intervals) {
      const auto meet = std::count_if(intervals.begin(), intervals.end(), [&](const Interval& other) {
        return other.begin <= it.begin && it.begin < other.end;
      });
      CHECK(meet <= instance.resource({where.second, where.first}).max_in_flight);
    }
  CHECK(std::is_sorted(routing.planned.begin(), routing.planned.end(),
                       [](const Interval& a, const Interval& b) { return a.begin < b.begin; }));
}

ExhaustiveMakespan::Chain chain_of(const Instance& instance, const std::vector<Visit>& path) {
  ExhaustiveMakespan::Chain chain;
  const auto add = [&](const Visit& from, const Visit& to, double seconds) {
    const int a = instance.number_of(from), b = instance.number_of(to);
    chain.push_back({b, seconds, a == b ? 0 : instance.test_network.message(a, b, 1).latency_s});
  };
  for (std::size_t i = 0; i < path.size(); ++i)
    add(path[i == 0 ? 0 : i - 1], path[i], instance.resource(path[i]).forward_s);
  for (std::size_t i = path.size(); i-- > 0;)
    add(path[std::min(i + 1, path.size() - 1)], path[i], instance.resource(path[i]).backward_s);
  return chain;
}

/// Returns all paths over these stages: every device of each stage, and every permitted swap of neighbours.
std::vector<std::vector<Visit>> all_paths(const RoutingProblem& problem, std::vector<int> stages) {
  std::set<std::vector<int>> orders{stages};
  const int last = static_cast<int>(problem.stages.size()) - 1;
  for (std::size_t i = 1; problem.allow_swaps && i + 1 < stages.size(); ++i)
    for (const std::vector<int>& order : std::set<std::vector<int>>(orders))
      if (order[i] + 1 == order[i + 1] && order[i] > 0 && order[i + 1] < last && order[i] == stages[i]) {
        std::vector<int> swapped = order;
        std::swap(swapped[i], swapped[i + 1]);
        orders.insert(swapped);
      }
  std::vector<std::vector<Visit>> candidate_paths;
  for (const std::vector<int>& order : orders) {
    std::vector<std::vector<Visit>> longer{{}};
    for (const int stage : order) {
      std::vector<std::vector<Visit>> before;
      before.swap(longer);
      for (const auto& candidate : before)
        for (const StageResource& it : problem.stages[at(stage)]) {
          longer.push_back(candidate);
          longer.back().push_back(it.place);
        }
    }
    candidate_paths.insert(candidate_paths.end(), longer.begin(), longer.end());
  }
  return candidate_paths;
}

/// Returns the minimum makespan over all paths of each micro-batch, whose stages are given. Micro-batches
/// with equal stages are interchangeable.
double best_makespan(const Instance& instance, const std::vector<std::vector<int>>& stages) {
  std::vector<ExhaustiveMakespan::Chain> chains;
  double best = 1e9;
  const std::function<void(std::size_t)> choose = [&](std::size_t first) {
    const std::size_t number = chains.size();
    if (number == stages.size()) {
      best = ExhaustiveMakespan::minimize(chains, instance.test_network.devices, best);
      return;
    }
    if (number > 0 && stages[number] != stages[number - 1]) first = 0;
    const auto candidate_paths = all_paths(instance.problem, stages[number]);
    for (std::size_t candidate = first; candidate < candidate_paths.size(); ++candidate) {
      chains.push_back(chain_of(instance, candidate_paths[candidate]));
      choose(candidate);
      chains.pop_back();
    }
  };
  choose(0);
  return best;
}

/// Returns the makespan that the simulator computes for this order on the same devices and latencies.
double replayed(const Instance& instance, const Routing& routing) {
  Topology topology = flat_topology({instance.test_network.devices}, link_of(0, 1e18), link_of(0, 1e18));
  RuleLinks& rules = std::get<RuleLinks>(topology.links);
  rules.links.clear();
  for (const double latency : instance.test_network.latency_s) rules.links.push_back(link_of(latency, 1e18));
  rules.table = Eigen::MatrixXi(instance.test_network.devices, instance.test_network.devices);
  rules.same_host =
      Eigen::MatrixXi::Constant(instance.test_network.devices, instance.test_network.devices, -1);
  for (int from = 0; from < instance.test_network.devices; ++from) {
    rules.link_class[at(from)] = from;
    for (int to = 0; to < instance.test_network.devices; ++to)
      rules.table(from, to) = from * instance.test_network.devices + to;
  }
  const int stages = static_cast<int>(instance.problem.stages.size());
  const Job job = chain_job(stages, 0, 0);
  Plan plan{1, {.schedule = Schedule::paths, .gradient_sync = GradientSync::none}, {}};
  std::size_t most = 0;
  for (const auto& stage : instance.problem.stages) most = std::max(most, stage.size());
  PathSchedule paths = routing.schedule;
  std::map<std::pair<int, int>, Visit> place_of;
  for (int d = 0; at(d) < most; ++d) {
    plan.pipelines.push_back({1, {}});
    for (int s = 0; s < stages; ++s) {
      if (at(d) >= instance.problem.stages[at(s)].size()) continue;
      place_of[{d, s}] = {d, static_cast<int>(plan.pipelines.back().stages.size())};
      plan.pipelines.back().stages.push_back({{s, s + 1}, {instance.number_of({d, s})}});
    }
  }
  for (auto& path : paths.paths)
    for (Visit& it : path) it = place_of.at({it.pipeline, it.stage});
  const Problem problem{topology, job, Calibration{1, 0, 1, 0}};
  return replay_makespan(iteration_graph(problem, plan, &paths));
}

/// Returns the delay of a forward pass on this path in addition to its computations, which all take equally
/// long.
double forward_delay_s(const Instance& instance, const std::vector<Visit>& candidate) {
  double seconds = 0;
  for (std::size_t i = 1; i < candidate.size(); ++i)
    seconds += instance.test_network
                   .message(instance.number_of(candidate[i - 1]), instance.number_of(candidate[i]), 1)
                   .latency_s;
  return seconds;
}

std::vector<int> stages_without(int stages, int left_out) {
  std::vector<int> all(at(stages));
  std::iota(all.begin(), all.end(), 0);
  std::erase(all, left_out);
  return all;
}

}  // namespace

TEST_CASE("reserved times are not free and the first gap that is wide enough is found") {
  Reservations times;
  CHECK(times.first_fit(3, 10) == 3);
  times.reserve({2, 4});
  times.reserve({6, 7});
  times.reserve({5, 5});
  CHECK(times.first_fit(0, 2) == 0);
  CHECK(times.first_fit(0, 2.5) == 7);
  CHECK(times.first_fit(1, 2) == 4);
  CHECK(times.first_fit(2, 0) == 2);
  CHECK(times.first_fit(3, 0) == 4);
  CHECK(times.first_fit(4, 2) == 4);
  CHECK(times.first_fit(6.5, 1) == 7);
  times.reserve({4, 6});
  REQUIRE(times.taken().size() == 1);
  CHECK(times.taken().front().begin == 2);
  CHECK(times.taken().front().end == 7);
  CHECK_THROWS_AS(times.reserve({1, 3}), BrokenInvariant);
}

TEST_CASE("every micro-batch visits its share of the stages in balance and without overlaps") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 0);
    const int stages = 1 + static_cast<int>(rng.below(7));
    const int skipped = stages < 3 ? 0 : static_cast<int>(rng.below(static_cast<std::uint32_t>(stages - 1)));
    Instance instance(stages, skipped, 1 + static_cast<int>(rng.below(30)), 4, rng);
    instance.problem.allow_swaps = rng.below(2) == 0;
    for (const long long budget : {1'000'000LL, 500LL, 0LL}) {
      CAPTURE(budget);
      instance.problem.budget = budget;
      const Routing routing = route(instance.problem), again = route(instance.problem);
      check_paths(instance, routing);
      check_times(instance, routing);
      CHECK(routing.schedule.paths == again.schedule.paths);
      CHECK(routing.schedule.order == again.schedule.order);
      if (budget == 0) CHECK(routing.greedy == instance.problem.micro_batches);
      if (budget > 500) CHECK(routing.greedy == 0);
    }
  }
}

// Four stages 0 to 3 of one device each; 1 and 2 hold one micro-batch; 1 to 2 takes 1 s. The first
// micro-batch occupies 1 when it arrives at 2, which the second one occupies, which in turn needs 1. If both
// take the same order, with forward passes of 1 s and backward passes of 2 s, the first is done with 1 at 11,
// and the second is computed there from then on and is back from 0 at 23.
TEST_CASE("micro-batches that occupy each other's next stage deadlock unless they take the same order") {
  Rng rng = Rng::for_task(0, 3);
  Instance instance(4, 0, 2, 1, rng, true);
  instance.test_network.latency_s.assign(16, 0);
  instance.test_network.latency_s[4 * 1 + 2] = 1;
  std::vector<const StageResource*> resources;
  for (auto& stage : instance.problem.stages) {
    stage.front().max_in_flight = resources.size() == 1 || resources.size() == 2 ? 1 : 2;
    resources.push_back(&stage.front());
  }
  CHECK_FALSE(dispatch(instance.problem, resources, {{0, 1, 2, 3}, {0, 2, 1, 3}}));
  const auto in_order = dispatch(instance.problem, resources, {{0, 1, 2, 3}, {0, 1, 2, 3}});
  REQUIRE(in_order);
  CHECK(in_order->back().time.end == Approx(23));
  CHECK(end_time(route(instance.problem)) <= 23);
}

// Of twelve micro-batches, the first may take any path.
TEST_CASE("the first micro-batch takes the shortest of all paths") {
  int swapped = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 1);
    const int left_out = static_cast<int>(rng.below(2));
    const Instance instance(5, left_out, 12, 3, rng, true);
    double shortest = 1e9;
    for (int stage = 1; stage <= (left_out == 0 ? 1 : 3); ++stage)
      for (const auto& candidate :
           all_paths(instance.problem, stages_without(5, left_out == 0 ? no_index : stage)))
        shortest = std::min(shortest, forward_delay_s(instance, candidate));
    const std::vector<Visit> path = route(instance.problem).schedule.paths.front();
    CHECK(forward_delay_s(instance, path) == Approx(shortest));
    for (std::size_t i = 1; i < path.size(); ++i) swapped += path[i].stage < path[i - 1].stage;
  }
  CHECK(swapped > 10);
}

// Every stage has up to two devices of 1 s forward and 2 s backward; messages take their latency only. The
// simulated time of the router's order is never less than the minimum over all paths and orders.
TEST_CASE("small cases are near the optimum over all paths and orders") {
  double sum = 0;
  int cases = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 2);
    for (const int stages : {3, 4}) {
      CAPTURE(stages);
      const int micro_batches = stages == 3 ? 4 : 2;
      const Instance instance(stages, 1, micro_batches, 2, rng, true);
      std::vector<std::vector<int>> visited;  // each of the two middle stages is skipped in turn
      for (int i = 0; i < micro_batches; ++i)
        visited.push_back(stages_without(stages, stages == 3 ? 1 : 1 + i % 2));
      const double best = best_makespan(instance, visited);
      const Routing routing = route(instance.problem);
      const double seconds = replayed(instance, routing);
      CHECK(seconds <= end_time(routing) + 1e-9);
      CHECK(seconds >= best - 1e-9);
      CHECK(seconds <= 1.1 * best);
      sum += seconds / best;
      ++cases;
    }
  }
  CHECK(sum / cases < 1.05);
}
