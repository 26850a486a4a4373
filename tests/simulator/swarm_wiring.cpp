// How trainers choose the next peer to ask.
#include "simulator/swarm/wiring.hpp"

#include <array>

#include "simulator/swarm/announcements.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Three peers whose answers take 1, 1/2 and 1/4 s per unit.
struct ThreePeers {
  Rng rng = Rng::for_task(3, 0);
  Wiring wiring{3};
  std::array<int, 3> picks{};

  ThreePeers() { announce(0); }
  void announce(double date) {
    const std::array<Announcement, 3> all{{{0, date}, {1, date}, {2, date}}};
    wiring.refresh(all, rng);
  }
  int pick(double size = 1) {
    const int peer = wiring.pick(size, rng).value();
    wiring.measure(peer, size, size / (1 << peer));
    ++picks[static_cast<std::size_t>(peer)];
    return peer;
  }
};

}  // namespace

// Every pick advances a peer's virtual time by size ÷ rate, so over a virtual time T peer p has T × rate_p:
// shares 1/7, 2/7 and 4/7 of 70,000 picks.
TEST_CASE("peers are picked in proportion to their rates") {
  ThreePeers it;
  for (int i = 0; i < 70'000; ++i) it.pick();
  for (int peer = 0; peer < 3; ++peer)
    CHECK(it.picks[static_cast<std::size_t>(peer)] == Approx(10'000 << peer).epsilon(0.02));
}

// An excluded peer keeps its virtual time: all of its turns are still to come.
TEST_CASE("an excluded peer is not picked") {
  for (int out = 0; out < 3; ++out) {
    ThreePeers it;
    for (int i = 0; i < 100; ++i) {
      const int peer = it.wiring.pick(1, it.rng, out).value();
      CHECK(peer != out);
    }
    CHECK(it.pick() == out);
    it.wiring.ban((out + 1) % 3, 0);
    it.wiring.ban((out + 2) % 3, 0);
    CHECK_FALSE(it.wiring.pick(1, it.rng, out));
    CHECK(it.pick() == out);
  }
}

TEST_CASE("tasks of different sizes count by their size") {
  // Forward passes of 1 and backward passes of 2.5 in turn: the units of each peer are in proportion to its
  // rate.
  ThreePeers it;
  std::array<double, 3> units{};
  for (int i = 0; i < 70'000; ++i) {
    const double size = i % 2 == 0 ? 1 : 2.5;
    units[static_cast<std::size_t>(it.pick(size))] += size;
  }
  for (int peer = 0; peer < 3; ++peer)
    CHECK(units[static_cast<std::size_t>(peer)] == Approx(17'500 << peer).epsilon(0.02));
}

// All begin at virtual time 0 with rate 1: each is picked once, in random order, before any is picked twice,
// and is then at 1. The first measurement alone is the average (bias correction), so the second round
// advances peer p by 2^-p: to 2, 1.5 and 1.25, again in random order as all three are at 1. Then peer 2 (1.25
// → 1.5), then peers 1 and 2 at 1.5 in random order (→ 2, 1.75), then peer 2 at 1.75 (→ 2): then all are at
// 2.
TEST_CASE("the first picks are those derived by hand") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    ThreePeers it;
    it.rng = Rng::for_task(seed, 1);
    for (int i = 0; i < 3; ++i) it.pick();
    CHECK(it.picks == std::array<int, 3>{1, 1, 1});
    for (int i = 0; i < 3; ++i) it.pick();
    CHECK(it.picks == std::array<int, 3>{2, 2, 2});
    CHECK(it.pick() == 2);
    it.pick();
    it.pick();
    CHECK(it.picks == std::array<int, 3>{2, 3, 4});
    CHECK(it.pick() == 2);
    for (int i = 0; i < 3; ++i) it.pick();  // all were at 2
    CHECK(it.picks == std::array<int, 3>{3, 4, 6});
  }
}

// 1 s, then 3 s per unit: 0.1 · 1, then 0.9 · 0.1 + 0.1 · 3 = 0.39, with weights 0.1 + 0.09 = 0.19.
TEST_CASE("rates are bias-corrected moving averages") {
  Wiring wiring(1);
  CHECK(wiring.rate(0) == 1);
  wiring.measure(0, 2, 2);
  CHECK(wiring.rate(0) == Approx(1));
  wiring.measure(0, 2, 6);
  CHECK(wiring.rate(0) == Approx(0.19 / 0.39));
}

TEST_CASE("a banned peer is not picked until it announces itself again") {
  ThreePeers it;
  for (int i = 0; i < 100; ++i) it.pick();
  CHECK(it.wiring.ban(2, 40));
  CHECK_FALSE(it.wiring.ban(2, 40));
  const int before = it.picks[2];
  it.announce(35);  // announced before its ban
  for (int i = 0; i < 700; ++i) it.pick();
  CHECK(it.picks[2] == before);
  it.announce(45);
  for (int i = 0; i < 700; ++i) it.pick();
  CHECK(it.picks[2] - before == Approx(400).epsilon(0.02));
}

TEST_CASE("a peer with an expired record is forgotten and re-enters at the others' virtual time") {
  ThreePeers it;
  for (int i = 0; i < 7'000; ++i) it.pick();
  const std::array<Announcement, 2> two{{{0, 50}, {1, 50}}};
  it.wiring.refresh(two, it.rng);
  CHECK_FALSE(it.wiring.ban(2, 50));  // it is unknown
  const int before = it.picks[2];
  for (int i = 0; i < 300; ++i) it.pick();
  CHECK(it.picks[2] == before);
  CHECK(it.wiring.rate(2) == 1);
  it.announce(60);
  // It starts at the virtual time of the first, without a backlog: its share from now on is 4/7.
  for (int i = 0; i < 700; ++i) it.pick();
  CHECK(it.picks[2] - before == Approx(400).epsilon(0.02));
}

TEST_CASE("a pick without peers returns nothing") {
  Rng rng = Rng::for_task(0, 0);
  Wiring wiring(2);
  CHECK_FALSE(wiring.pick(1, rng));
  const std::array<Announcement, 1> one{{{1, 0}}};
  wiring.refresh(one, rng);
  CHECK(wiring.pick(1, rng) == 1);
  wiring.ban(1, 2);
  CHECK_FALSE(wiring.pick(1, rng));
}

// Announced at 2, 7, 12, …; the last before 14.5 is that of 12, which is valid until 312.
TEST_CASE("records are valid for 300 s after the last announcement") {
  Announcements announcements(2);
  announcements.begin(1, 4, 2);
  CHECK(announcements.valid(0, 13).empty());
  REQUIRE(announcements.valid(1, 13).size() == 1);
  CHECK(announcements.valid(1, 13)[0].date == 12);
  announcements.end(1, 4, 14.5);
  CHECK(announcements.valid(1, 311.9)[0].date == 12);
  const int version = announcements.version(1);
  CHECK(announcements.valid(1, 312).empty());
  CHECK(announcements.version(1) > version);
  CHECK_FALSE(announcements.has_ended(1));
}
