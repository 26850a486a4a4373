// Checks that no micro-batch is lost or counted twice, whichever peers fail at any time.
#include <algorithm>
#include <map>
#include <set>

#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/swarms.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Tracks the gradient of each micro-batch at each stage through the events of a run.
class Ledger {
 public:
  explicit Ledger(int stages) : stages_(stages) {}

  void take(const SwarmEvent& event) {
    using Kind = SwarmEvent::Kind;
    switch (event.kind) {
      case Kind::issued:
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
      CHECK(it.lost == lost_after_held_.at(stage) + counts[State::lost]);
    }
  }

 private:
  enum class State { held, averaged, accepted, lost };
  struct Entry {
    int peer;
    State state;
  };

  /// A gradient may be counted only once, unless the counted one has been lost.
  void add(const SwarmEvent& event) {
    const auto [place, is_new] =
        entries_.try_emplace(std::pair(event.micro_batch, event.stage), Entry{event.peer, State::held});
    if (is_new) return;
    REQUIRE(place->second.state == State::lost);
    ++lost_after_held_[event.stage];
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
  /// Checks that every stage has counted the micro-batch at some time.
  void finish(long long micro_batch) {
    REQUIRE(finished_.insert(micro_batch).second);
    for (int stage = 0; stage < stages_; ++stage) REQUIRE(entries_.count({micro_batch, stage}) == 1);
  }

  int stages_;
  std::set<long long> drawn_, finished_;
  std::map<std::pair<long long, int>, Entry> entries_;  // by micro-batch and stage
  mutable std::map<int, long long> lost_after_held_{{0, 0}, {1, 0}, {2, 0}};
};

/// Six peers at two sites, three stages; activations take 0.3 s, token ids, labels and losses less, forward
/// passes 1 s, backward passes 3 s, all-reduces 2 s.
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
    problem.job.training.optimizer = Optimizer::sgd_8;
  }
  /// Runs the swarm and returns the times of the observed events.
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
  /// Returns the time of every observed event, just after it, and two times before the next event.
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

/// Returns as many of the moments as tests repeat, evenly spread.
std::vector<double> repeated(const std::vector<double>& moments) {
  std::vector<double> kept(static_cast<std::size_t>(repetitions(static_cast<int>(moments.size()))));
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = moments[i * moments.size() / kept.size()];
  return kept;
}

constexpr auto both_transports = {SwarmTransport::relay, SwarmTransport::peer_to_peer};

}  // namespace

TEST_CASE("no gradient is lost or counted twice if any peer fails at any time") {
  for (const SwarmTransport transport : both_transports) {
    SmallSwarm swarm(transport);
    const std::vector<double> moments = swarm.moments();
    CHECK(moments.size() > 250);
    for (const double moment : repeated(moments))
      for (int device = 0; device < 6; ++device) {
        INFO("device " << device << " at " << moment);
        swarm.run({{moment, device}});
      }
  }
}

TEST_CASE(
    "no gradient is lost or counted twice if a failed peer rejoins with delayed updates and "
    "rebalancing") {
  for (const SwarmTransport transport : both_transports) {
    SmallSwarm swarm(transport);
    swarm.setup.delayed_update = true;
    swarm.setup.rebalance_s = 7;
    for (const double moment : repeated(swarm.moments()))
      for (int device = 0; device < 6; ++device) {
        INFO("device " << device << " at " << moment);
        swarm.run({{moment, device}, {moment + 9, device, DeviceEvent::Kind::join}});
      }
  }
}

TEST_CASE("no gradient is lost or counted twice if calls are verified and one peer is faulty") {
  for (const SwarmTransport transport : both_transports) {
    SmallSwarm swarm(transport);
    swarm.setup.verify = 0.5;
    swarm.setup.faulty_share = 1.0 / 6;
    for (const double moment : repeated(swarm.moments()))
      for (int device = 0; device < 6; ++device) {
        INFO("device " << device << " at " << moment);
        swarm.run({{moment, device}, {moment + 9, device, DeviceEvent::Kind::join}});
      }
  }
}

TEST_CASE("no gradient is lost or counted twice if peers fail and join at random") {
  for (std::uint64_t seed = 0; seed < repetitions(200); ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 0);
    SmallSwarm swarm(seed % 2 == 0 ? SwarmTransport::relay : SwarmTransport::peer_to_peer);
    swarm.options.seed = seed;
    swarm.options.seconds = 600;
    swarm.setup.delayed_update = rng.below(2) == 0;
    swarm.setup.verify = seed % 4 == 3 ? rng.uniform() : 0;
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

// Stage 1 of three has one of the four peers; it fails at 20 s and rejoins at 30 s, in the stage without
// peers.
TEST_CASE("a stage without peers blocks until a peer joins it") {
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

// One stage of 1,000 parameters, for each of which Adam saves 12 bytes: 120 s at 100 B/s, plus the latency.
// When the sending peer, the first one, fails at 150 s, the other one sends everything again.
TEST_CASE("a joining peer fetches the state of its stage before it serves") {
  const Link link = link_of(0.5, 100);
  const Problem problem{flat_topology({3}, link, link), swarm_job(1, 1, 0, 1000, 4), {}};
  SwarmOptions options;
  options.seconds = 400;
  using Kind = DeviceEvent::Kind;
  Scenario scenario;
  scenario.events = {{10, 2}, {100, 2, Kind::join}};
  const SwarmReport report = simulate_swarm(problem, {}, scenario, options);
  CHECK(report.steps.front().end_s < 100);
  CHECK(report.devices[2].down_s == Approx(90));
  CHECK(report.devices[2].fetching_s == Approx(120.5));
  CHECK(report.stages[0].peers == 3);
  scenario.events.push_back({150, 0});
  CHECK(simulate_swarm(problem, {}, scenario, options).devices[2].fetching_s == Approx(170.5));
  // No peer has it any more: it comes from the checkpoint, 12,000 bytes at 50 B/s, or the stage starts again
  // from the seed immediately.
  scenario.events.back() = {150, 0};
  scenario.events.push_back({160, 1});
  const SwarmReport restarted = simulate_swarm(problem, {}, scenario, options);
  CHECK(restarted.devices[2].fetching_s == Approx(60));
  CHECK(restarted.events.back().text == "no peer has the weights of stage 0: it starts again from the seed");
  scenario.checkpoint = Checkpoint{8 * 50, {}};
  CHECK(simulate_swarm(problem, {}, scenario, options).devices[2].fetching_s ==
        Approx(60 + 240).epsilon(1e-9));
}

// Stage 1 takes three times as long as stage 0 and has equally few peers, so requests pile up there. After
// the first period a peer moves to that stage, and at most one follows per period.
TEST_CASE("rebalancing moves a peer to the stage with the most requests") {
  const Link link = link_of(0, 1e6);
  Problem problem{flat_topology({8}, link, link), swarm_job(2, 1, 0, 10, 32), {}};
  std::get<LayerChain>(problem.job.model).layers[1].forward = Flops(3e12);
  std::get<LayerChain>(problem.job.model).layers[1].backward = Flops(6e12);
  SwarmSetup setup;
  setup.stages = 2;
  SwarmOptions options;
  options.seconds = 1000;
  // The peers are assigned 2 and 6. Four leave the slower stage: 2 and 2 remain.
  Scenario scenario;
  scenario.compute_jitter.cv = 0.01;
  const SwarmReport initial = simulate_swarm(problem, setup, scenario, options);
  CHECK(initial.stages[0].peers == 2);
  CHECK(initial.stages[1].peers == 6);
  for (int device = 3, left = 0; device < 8 && left < 4; ++device)
    if (initial.devices[at(device)].stage == 1) scenario.events.push_back({10.0 + left++, device});
  const SwarmReport without = simulate_swarm(problem, setup, scenario, options);
  setup.rebalance_s = 300;
  const SwarmReport with = simulate_swarm(problem, setup, scenario, options);
  CHECK(without.moves == 0);
  CHECK(with.moves >= 1);
  CHECK(with.moves <= 3);
  const auto is_move = [](const EventReport& event) {
    return event.text.find(" moves ") != std::string::npos;
  };
  const auto first = std::find_if(with.events.begin(), with.events.end(), is_move);
  REQUIRE(first != with.events.end());
  CHECK(first->date_s == 300);
  CHECK(first->text.find("from stage 0 to stage 1") != std::string::npos);
  CHECK(with.useful_samples > without.useful_samples);
}
