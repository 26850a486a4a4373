// No micro-batch is lost or counted twice, whoever leaves whenever.
#include <algorithm>
#include <map>
#include <set>

#include "planner/core/rng.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/swarms.hpp"

using namespace dtfm;

namespace {

/// What became of each micro-batch's gradient at each stage, by the events of a run.
class Ledger {
 public:
  explicit Ledger(int stages) : stages_(stages) {}

  void take(const SwarmEvent& event) {
    using Kind = SwarmEvent::Kind;
    switch (event.kind) {
      case Kind::drawn:
        REQUIRE(drawn_.insert(event.micro_batch).second);
        break;
      case Kind::forward:
        REQUIRE(drawn_.count(event.micro_batch) == 1);
        break;
      case Kind::gradient:
        add(event);
        break;
      case Kind::averaging:
        change(event, State::held, State::averaged);
        break;
      case Kind::stepped:
        change(event, State::averaged, State::accepted);
        break;
      case Kind::lost:
        lose(event);
        break;
      case Kind::finished:
        finish(event.micro_batch);
        break;
    }
  }
  void check(const SwarmReport& report) const {
    CHECK(report.samples == static_cast<long long>(finished_.size()));
    for (int stage = 0; stage < stages_; ++stage) {
      std::map<State, long long> counts;
      for (const auto& [key, entry] : entries_)
        if (key.second == stage) ++counts[entry.state];
      const SwarmStage& it = report.stages[at(stage)];
      CHECK(it.accepted == counts[State::accepted]);
      CHECK(it.held == counts[State::held] + counts[State::averaged]);
      CHECK(it.lost == lost_again_.at(stage) + counts[State::lost]);
    }
  }

 private:
  enum class State { held, averaged, accepted, lost };
  struct Entry {
    int peer;
    State state;
  };

  /// Counted once, unless what was counted has been lost.
  void add(const SwarmEvent& event) {
    const auto [place, is_new] =
        entries_.try_emplace(std::pair(event.micro_batch, event.stage), Entry{event.peer, State::held});
    if (is_new) return;
    REQUIRE(place->second.state == State::lost);
    ++lost_again_[event.stage];
    place->second = {event.peer, State::held};
  }
  void change(const SwarmEvent& event, State from, State to) {
    for (auto& [key, entry] : entries_)
      if (key.second == event.stage && entry.state == from) entry.state = to;
  }
  void lose(const SwarmEvent& event) {
    for (auto& [key, entry] : entries_)
      if (key.second == event.stage && entry.peer == event.peer &&
          (entry.state == State::held || entry.state == State::averaged))
        entry.state = State::lost;
  }
  /// Every stage has counted it, at some time.
  void finish(long long micro_batch) {
    REQUIRE(finished_.insert(micro_batch).second);
    for (int stage = 0; stage < stages_; ++stage) REQUIRE(entries_.count({micro_batch, stage}) == 1);
  }

  int stages_;
  std::set<long long> drawn_, finished_;
  std::map<std::pair<long long, int>, Entry> entries_;  // by micro-batch and stage
  mutable std::map<int, long long> lost_again_{{0, 0}, {1, 0}, {2, 0}};
};

/// Six peers in two sites, three stages; messages take 0.3 s, forwards 1 s, backwards 3 s, all-reduces 2 s.
struct SmallSwarm {
  Problem problem{flat_topology({3, 3}, link_of(0.1, 50), link_of(0.1, 50)), swarm_job(3, 1, 10, 50, 4), {}};
  SwarmSetup setup;
  SwarmOptions options;
  Scenario scenario;

  explicit SmallSwarm(SwarmTransport transport) {
    setup.stages = 3;
    setup.transport = transport;
    setup.trainers = 2;
    setup.in_flight = 3;
    options.seconds = 60;
    scenario.detection_s = 0.5;
    problem.job.training.optimizer = "sgd-8";
  }
  /// The dates of what is seen.
  std::vector<double> run(const std::vector<DeviceEvent>& events) {
    scenario.events = events;
    Ledger ledger(3);
    std::vector<double> dates;
    options.observe = [&](const SwarmEvent& event) {
      dates.push_back(event.date);
      ledger.take(event);
    };
    const SwarmReport report = simulate_swarm(problem, setup, scenario, options);
    ledger.check(report);
    for (const SwarmDevice& device : report.devices)
      CHECK(device.compute_s + device.fetching_s + device.idle_s + device.down_s == Approx(report.length_s));
    return dates;
  }
  /// At everything that is seen, just after it, and at two moments before the next.
  std::vector<double> moments() {
    std::vector<double> dates = run({});
    dates.erase(std::unique(dates.begin(), dates.end()), dates.end());
    std::vector<double> moments;
    for (std::size_t i = 0; i + 1 < dates.size() && dates[i] < 40; ++i)
      for (const double part : {0.0, 1e-6, 0.3, 0.7})
        moments.push_back(dates[i] + part * (dates[i + 1] - dates[i]));
    std::erase(moments, 0.0);
    return moments;
  }
};

constexpr auto transports = {SwarmTransport::relay, SwarmTransport::peer_to_peer};

}  // namespace

TEST_CASE("every peer leaves at every moment") {
  for (const SwarmTransport transport : transports) {
    SmallSwarm swarm(transport);
    const std::vector<double> moments = swarm.moments();
    CHECK(moments.size() > 250);
    for (const double moment : moments)
      for (int device = 0; device < 6; ++device) {
        INFO("device " << device << " at " << moment);
        swarm.run({{moment, device}});
      }
  }
}

TEST_CASE("every peer leaves at every moment and comes back, with delayed updates and rebalancing") {
  for (const SwarmTransport transport : transports) {
    SmallSwarm swarm(transport);
    swarm.setup.delayed_update = true;
    swarm.setup.rebalance_s = 7;
    for (const double moment : swarm.moments())
      for (int device = 0; device < 6; ++device) {
        INFO("device " << device << " at " << moment);
        swarm.run({{moment, device}, {moment + 9, device, DeviceEvent::Kind::join}});
      }
  }
}

TEST_CASE("peers leave and join at random") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 0);
    SmallSwarm swarm(seed % 2 == 0 ? SwarmTransport::relay : SwarmTransport::peer_to_peer);
    swarm.options.seed = seed;
    swarm.options.seconds = 600;
    swarm.setup.delayed_update = rng.below(2) == 0;
    if (rng.below(2) == 0) swarm.setup.rebalance_s = 5 + 20 * rng.uniform();
    swarm.scenario.compute_jitter.cv = 0.3;
    std::vector<bool> there(6, true);
    std::vector<DeviceEvent> events;
    for (double date = 0; (date += 20 * rng.uniform()) < 550;) {
      const int device = static_cast<int>(rng.below(6));
      using Kind = DeviceEvent::Kind;
      events.push_back({date, device, there[at(device)] ? Kind::leave : Kind::join});
      there[at(device)] = !there[at(device)];
    }
    swarm.run(events);
  }
}

// Stage 1 of three has one peer of four; it leaves at 20 s and comes back at 30 s, to the stage that has
// nobody.
TEST_CASE("a stage without peers blocks until somebody joins it") {
  SmallSwarm swarm(SwarmTransport::relay);
  swarm.problem.topology = flat_topology({3}, link_of(0.1, 50), link_of(0.1, 50));
  swarm.options.seconds = 100;
  swarm.scenario.events = {{20, 1}, {30, 1, DeviceEvent::Kind::join}};
  const SwarmReport report = simulate_swarm(swarm.problem, swarm.setup, swarm.scenario, swarm.options);
  CHECK(report.stages[1].blocked_s == Approx(10));
  CHECK(report.stages[0].blocked_s == 0);
  CHECK(report.devices[1].down_s == Approx(10));
  CHECK(report.stages[1].peers == 1);
  CHECK(report.bans >= 1);
  CHECK(report.samples > 10);
}
