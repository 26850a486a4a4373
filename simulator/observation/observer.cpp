#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

int notify_of_each(RunObserver& observer, const RunInterval& run_interval) {
  for (int i = 0; i < run_interval.times; ++i) try {
      throw_if_stopped(run_interval.stop);
      const double later = run_interval.start_of(i) - run_interval.start;
      Replay repetition;
      if (i > 0) {
        repetition = run_interval.replay;
        repetition.makespan = round_to_tick(repetition.makespan + later);
        repetition.last_event_date = round_to_tick(repetition.last_event_date + later);
        for (TaskRecord& record : repetition.tasks)
          for (double* date : {&record.ready, &record.start, &record.finish})
            *date = round_to_tick(*date + later);
      }
      observer.on_interval({run_interval.kind, run_interval.iteration + i, run_interval.start_of(i),
                            run_interval.start_of(i + 1), run_interval.graph,
                            i > 0 ? repetition : run_interval.replay, run_interval.stop});
    } catch (const WorkStopped&) {
      return i;
    }
  return run_interval.times;
}

}  // namespace dtfm::sim
