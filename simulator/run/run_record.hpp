// The record of a training run: its report, and the observers of its intervals.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/stop.hpp"
#include "core/plan/plan.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/run/run_graphs.hpp"

namespace dtfm::sim {

class RunRecord {
 public:
  /// `stop` tells observers to stop. `observe` adds them; they must outlive this.
  explicit RunRecord(StopFunction stop) : stop_(std::move(stop)) {}
  void observe(const std::vector<RunObserver*>& observers) { observers_ = observers; }

  int completed() const { return static_cast<int>(report.iterations.size()); }
  void note(double date, std::string text) { report.events.push_back({date, std::move(text)}); }
  /// Incomplete work counts as not started.
  void interrupt() { report.stopped = stopped_by_user; }
  /// The devices of `plan` have their slots from now on.
  void place(const Plan& plan) {
    for (const int device : pipeline_major(plan)) assigned_.insert(device);
    const Plan computed = expand_virtual_stages(plan);
    for (RunObserver* observer : observers_) observer->place(computed);
  }
  /// Devices that were assigned to a slot at some time, ascending.
  std::vector<int> assigned_devices() const { return {assigned_.begin(), assigned_.end()}; }

  /// An interval of the current iteration. `replayed` and `graph` must outlive it.
  RunInterval interval(RunInterval::Kind kind, const ReplayedInterval& replayed,
                       const LabelledGraph& graph) const {
    return {kind, completed(), replayed.start, replayed.end, graph, replayed.replay, stop_};
  }
  /// Notifies the observers and counts tasks, events and flows. Returns the number of repetitions that all
  /// observers have recorded, which is less than that of the interval only after a stop. Throws WorkStopped
  /// if there are none.
  int add(RunInterval run_interval) {
    const int all = run_interval.repetitions;
    const auto counts = [](const RunObserver* it) { return it->counts_repetitions(); };
    if (!std::all_of(observers_.begin(), observers_.end(), counts))
      run_interval.repetitions = notify_of_each(run_interval);
    // The other observers must not miss what these have recorded.
    if (all > 1) run_interval.stop = {};
    for (RunObserver* observer : observers_)
      if (counts(observer)) observer->on_interval(run_interval);
    const int times = run_interval.repetitions;
    report.tasks += times * static_cast<long long>(run_interval.replay.tasks.size());
    report.events_handled += times * run_interval.replay.events;
    report.flows += times * run_interval.replay.flows;
    return times;
  }

  SimReport report;

 private:
  /// The same `later` seconds later.
  static Replay shifted(Replay replay, double later) {
    replay.makespan = round_to_tick(replay.makespan + later);
    replay.last_event_date = round_to_tick(replay.last_event_date + later);
    for (TaskRecord& record : replay.tasks)
      for (double* date : {&record.ready, &record.start, &record.finish})
        *date = round_to_tick(*date + later);
    return replay;
  }

  /// Notifies the observers that do not count repetitions of each of them. Returns the number of repetitions
  /// that all of these have recorded, which is less than that of the interval only after a stop. Throws
  /// WorkStopped if there are none.
  int notify_of_each(const RunInterval& all) const {
    int done = 0;
    try {
      for (; done < all.repetitions; ++done) {
        throw_if_stopped(all.stop);
        const double later = all.start_of(done) - all.start;
        const Replay replay = done > 0 ? shifted(all.replay, later) : Replay();
        for (RunObserver* observer : observers_)
          if (!observer->counts_repetitions())
            observer->on_interval({all.kind, all.iteration + done, all.start_of(done), all.start_of(done + 1),
                                   all.graph, done > 0 ? replay : all.replay, all.stop});
      }
    } catch (const WorkStopped&) {
      if (done == 0) throw;
    }
    return done;
  }

  StopFunction stop_;
  std::vector<RunObserver*> observers_;
  std::set<int> assigned_;
};

}  // namespace dtfm::sim
