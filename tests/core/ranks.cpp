// Tests work that is divided among ranks, and the bytes that they exchange.
#include "core/base/work.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/plan/placement_codec.hpp"
#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

namespace dtfm {
namespace {

double random_number(int task) {
  return Rng::for_task(7, static_cast<std::uint64_t>(task)).uniform();
}

template <class T>
T copied_by_bytes(const T& value) {
  ByteWriter out;
  out.put(value);
  ByteReader in(out.bytes());
  T copy = in.get<T>();
  CHECK(in.is_at_end());
  return copy;
}

struct Mixed {
  int number = 0;
  std::optional<std::string> text;
  std::vector<std::pair<bool, double>> values;
};

/// The message of the exception that `work` throws; empty if it throws none.
template <class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.where() + " | " + message_of(error);
  } catch (const BrokenInvariant& error) {
    return std::string("broken | ") + error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("all ranks get all results in index order, for any number of ranks and threads") {
  const std::vector<double> alone = parallel_map(103, 1, random_number);
  for (const int size : {1, 2, 3, 4})
    for (const int threads : {1, 2, 3, 8}) {
      CAPTURE(size, threads);
      const auto work = [&](RankRun run) {
        return distributed_map(103, {threads, &run.ranks}, random_number);
      };
      for (const std::vector<double>& results : on_thread_ranks(size, work)) CHECK(results == alone);
    }
}

TEST_CASE("each task runs on one rank, and ranks without a task get the results, too") {
  const auto work = [](RankRun run) {
    const int rank = run.ranks.rank();
    return std::pair(distributed_map(3, {1, &run.ranks}, [&](int) { return rank; }),
                     distributed_map(0, {1, &run.ranks}, [&](int) { return rank; }));
  };
  for (const auto& [few, none] : on_thread_ranks(4, work)) {
    CHECK(few == std::vector{0, 1, 2});
    CHECK(none.empty());
  }
}

TEST_CASE("a map inside of a task is not divided") {
  const auto work = [](RankRun run) {
    const Work own{2, &run.ranks};
    return distributed_map(
        5, own, [&](int i) { return distributed_map(3, own, [&](int k) { return 10 * i + k; }).back(); });
  };
  for (const auto& results : on_thread_ranks(2, work)) CHECK(results == std::vector{2, 12, 22, 32, 42});
}

TEST_CASE("the failure of the smallest index is thrown on every rank, with its place") {
  const auto work = [](RankRun run) {
    return error_of([&] {
      distributed_map(20, {2, &run.ranks}, [](int task) {
        if (task >= 11) throw Error("file", std::to_string(task));
        return task;
      });
    });
  };
  for (const int size : {2, 3, 4})
    for (const std::string& error : on_thread_ranks(size, work)) CHECK(error == "file | 11");
}

TEST_CASE("a failure that is no error of the input stays an internal one") {
  const auto work = [](RankRun run) {
    return error_of([&] {
      distributed_map(2, {1, &run.ranks}, [](int) -> int { throw std::runtime_error("no memory"); });
    });
  };
  for (const std::string& error : on_thread_ranks(2, work)) CHECK(error == "broken | no memory");
}

TEST_CASE("after the loss of a rank, the others compute the missing tasks themselves") {
  const std::vector<double> alone = parallel_map(30, 1, random_number);
  const auto work = [&](RankRun run) {
    std::vector<double> all;
    for (int begin = 0; begin < 30; begin += 10)
      for (const double it :
           distributed_map(10, {1, &run.ranks}, [&](int i) { return random_number(begin + i); }))
        all.push_back(it);
    return std::tuple(all, run.ranks.is_broken(), run.ranks.divides());
  };
  for (const int lost_in : {2, 3, 4})  // the first exchange waits for all ranks
    for (const auto& [results, is_broken, divides] : on_thread_ranks(3, work, lost_in)) {
      CAPTURE(lost_in);
      CHECK(results == alone);
      CHECK(is_broken);
      CHECK_FALSE(divides);
    }
}

TEST_CASE("outside of tasks, all ranks have the same time, which passes with each exchange") {
  const auto work = [](RankRun run) {
    std::vector<std::chrono::nanoseconds> elapsed;
    const auto begin = run.ranks.now();
    for (int round = 0; round < 3; ++round) {
      distributed_map(2, {1, &run.ranks}, [](int i) { return i; });
      elapsed.push_back(run.ranks.now() - begin);
      elapsed.push_back(run.ranks.now() - begin);
    }
    return elapsed;
  };
  const auto all = on_thread_ranks(3, work);
  for (const auto& elapsed : all) {
    CHECK(elapsed == all.front());
    for (const std::size_t round : {0u, 2u, 4u}) CHECK(elapsed[round] == elapsed[round + 1]);
    CHECK(elapsed[0] < elapsed[2]);
    CHECK(elapsed[2] < elapsed[4]);
  }
}

TEST_CASE("a task sees the clock of its own rank, and so does a rank that computes alone") {
  const auto work = [](RankRun run) {
    const auto advances = [&](int) {
      const auto before = run.ranks.now();
      while (std::chrono::steady_clock::now() <= before) continue;
      return run.ranks.now() > before;
    };
    const bool in_task = distributed_map(2, {1, &run.ranks}, advances).front();
    run.ranks.leave();
    return in_task && advances(0);
  };
  CHECK(on_thread_ranks(2, work) == std::vector{true, true});
}

TEST_CASE("a rank that ends with an error ends the others with it") {
  const auto work = [](RankRun run) {
    if (run.ranks.rank() == 1) {
      run.ranks.finish("net.yaml: no such file");
      return std::string();
    }
    return error_of([&] { distributed_map(4, {1, &run.ranks}, [](int i) { return i; }); });
  };
  const auto errors = on_thread_ranks(3, work);
  CHECK(errors[0] == "rank 1 | net.yaml: no such file");
  CHECK(errors[2] == errors[0]);
}

TEST_CASE("ranks with different numbers of threads agree on the number of tasks at a time") {
  const auto work = [&](RankRun run) {
    CHECK(Work(4, &run.ranks).workers() == 12);
    const int threads = 1 + 2 * run.ranks.rank();
    run.ranks.check_same_input({"1.0", {}, "", threads});
    return Work(threads, &run.ranks).workers();
  };
  for (const int count : on_thread_ranks(3, work)) CHECK(count == 1 + 3 + 5);
}

TEST_CASE("ranks with different inputs are refused") {
  const RankInput root{"1.0", {"net.yaml", "--seed 4"}, "net.yaml 1f", 1};
  struct Case {
    RankInput other;
    std::string error;
  };
  const Case cases[] = {
      {root, ""},
      {{"1.1", root.options, root.files, 1},
       "rank 2 | is version 1.1, but rank 0 is version 1.0; install the same version on all machines"},
      {{"1.0", {"net.yaml", "--seed 5"}, root.files, 1},
       "rank 2 | has `--seed 5`, which rank 0 does not have; start all ranks with the same options"},
      {{"1.0", {"net.yaml"}, root.files, 1},
       "rank 2 | does not have `--seed 4`, which rank 0 has; start all ranks with the same options"},
      {{"1.0", root.options, "net.yaml 2f", 1},
       "rank 2 | input files differ from those of rank 0; give all ranks the same files"}};
  for (const Case& it : cases) {
    const auto work = [&](RankRun run) {
      return error_of([&] { run.ranks.check_same_input(run.ranks.rank() == 2 ? it.other : root); });
    };
    for (const std::string& error : on_thread_ranks(3, work)) CHECK(error == it.error);
  }
}

TEST_CASE("numbers keep their bits") {
  for (const double number : {0.0, -0.0, 0.1, 1e300, 5e-324, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN(), -std::nan("7")})
    CHECK(std::bit_cast<std::uint64_t>(copied_by_bytes(number)) == std::bit_cast<std::uint64_t>(number));
  for (const long long number :
       {0LL, 1LL, -1LL, 63LL, 64LL, -64LL, -65LL, std::numeric_limits<long long>::max(),
        std::numeric_limits<long long>::min()})
    CHECK(copied_by_bytes(number) == number);
  CHECK(copied_by_bytes(std::numeric_limits<std::size_t>::max()) == std::numeric_limits<std::size_t>::max());
}

TEST_CASE("small integers take one byte") {
  for (const int number : {0, 63, -64}) {  // seven bits, one of which is the sign
    ByteWriter out;
    out.put(number);
    CHECK(out.bytes().size() == 1);
  }
}

TEST_CASE("structs, optionals, vectors and plans are copied whole") {
  const Mixed mixed{-3, "text\0with zero", {{true, 0.5}, {false, -1}}};
  const Mixed copy = copied_by_bytes(mixed);
  CHECK(copy.number == -3);
  CHECK(copy.text == mixed.text);
  CHECK(copy.values == mixed.values);
  CHECK_FALSE(copied_by_bytes(Mixed{}).text);
  const std::vector<Pipeline> pipelines{{3, {{{0, 2}, {4, 5}}, {{2, 300}, {1000}}}}, {1, {}}};
  CHECK(copied_by_bytes(pipelines) == pipelines);
  Placement placement(2, 3);
  for (int i = 0; i < 6; ++i) placement.at(i % 2, i / 2) = 5 - i;
  CHECK(copied_by_bytes(placement) == placement);
}

}  // namespace dtfm
