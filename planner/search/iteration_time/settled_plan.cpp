#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/core/virtual_stages.hpp"
#include "planner/search/iteration_time/unit_seats.hpp"
#include "planner/search/iteration_time/warm_start.hpp"

namespace dtfm::search {
namespace {

class Settler {
 public:
  Settler(const PlanCandidate& candidate, const PlanScore& score, const std::function<bool()>& stop)
      : job_(*candidate.job),
        from_(candidate),
        score_(score),
        stop_(stop),
        units_(units_beside(job_, candidate.plan)),
        lacking_(units_, score.moving()),
        moving_(*score.moving(), job_.model.chunks),
        timer_(job_.model, candidate.plan),
        seat_of_(units_.size(), nobody) {
    timer_.set_flush(candidate.flush);
    const UnitNumbers numbers(units_);
    for (int p = 0; at(p) < candidate.plan.pipelines.size(); ++p) {
      const Pipeline& pipeline = candidate.plan.pipelines[at(p)];
      const auto layers = layers_of_stages(pipeline, job_.model.chunks);
      for (int s = 0; at(s) < pipeline.stages.size(); ++s) {
        const int unit = numbers.of(pipeline.stages[at(s)].devices);
        seat_of_[at(unit)] = static_cast<int>(seats_.size());
        seats_.push_back({p, s, unit, &lacking_.of(layers[at(s)])});
      }
    }
  }

  Plan run() {
    for (bool is_better = true; is_better;) {
      is_better = false;
      for (int seat = 0; at(seat) < seats_.size(); ++seat) is_better = settle(seat) || is_better;
    }
    Plan plan = timer_.plan();
    plan.tensor = tensor_degrees(plan).back();
    return plan;
  }

 private:
  struct Taken {  // a seat
    int pipeline = 0, stage = 0, unit = 0;
    const std::vector<double>* lacking;  // bytes, of each unit in this seat
  };

  /// A unit that lacks nothing there takes the seat; the one that had it goes where that one was.
  bool settle(int seat) {
    const Taken& taken = seats_[at(seat)];
    const int now = taken.unit;
    const double lacks = (*taken.lacking)[at(now)];
    if (lacks <= 0) return false;
    for (int home = 0; at(home) < units_.size(); ++home) {
      if ((*taken.lacking)[at(home)] > 0) continue;
      if (const int other = seat_of_[at(home)]; other != nobody) {
        const std::vector<double>& there = *seats_[at(other)].lacking;
        if (there[at(now)] - there[at(home)] >= lacks) continue;
      }
      if (prices_ >= most_prices || (stop_ && stop_())) return false;
      ++prices_;
      exchange(seat, home);
      if (is_as_good()) return true;
      exchange(seat, now);
    }
    return false;
  }

  /// `unit` takes the seat; the one that had it goes to the seat of `unit`, if that has one.
  void exchange(int seat, int unit) {
    const int before = seats_[at(seat)].unit, other = seat_of_[at(unit)];
    put(seat, unit);
    seat_of_[at(before)] = other;
    if (other != nobody) put(other, before);
  }

  void put(int seat, int unit) {
    Taken& taken = seats_[at(seat)];
    taken.unit = unit;
    seat_of_[at(unit)] = seat;
    timer_.set_devices(taken.pipeline, taken.stage, units_[at(unit)]);
  }

  /// But for rounding, which is not the same where equal devices change places.
  bool is_as_good() {
    constexpr double rounding = 1e-9;
    const PlanCandidate now = timed_plan(from_.job, timer_, &moving_, score_);
    return now.score <= from_.score * (1 + rounding) && now.lacking <= from_.lacking;
  }

  const DecidedJob& job_;
  const PlanCandidate& from_;
  const PlanScore& score_;
  const std::function<bool()>& stop_;
  std::vector<std::vector<int>> units_;
  LackingBytes lacking_;
  cost::MovingTimer moving_;
  cost::IterationTimer timer_;
  std::vector<Taken> seats_;
  std::vector<int> seat_of_;  // of each unit
  long long prices_ = 0;
};

}  // namespace

PlanCandidate settled_plan(const PlanCandidate& candidate, const PlanScore& score,
                           const std::function<bool()>& stop) {
  return priced_plan(candidate.job, Settler(candidate, score, stop).run(), candidate.flush, score);
}

}  // namespace dtfm::search
