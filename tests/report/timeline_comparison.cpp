// Tests where a measured timeline parts from the simulated one.
#include "cli/simulate/sim_summary.hpp"
#include "planner/io/simulation_document.hpp"
#include "simulator/report/timeline_comparison.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/two_stages.hpp"

using namespace dtfm;
using namespace dtfm::cli;
using namespace dtfm::sim;

namespace {

using Track = TimelineRow::Track;

Timeline recorded() {
  const TwoStages run;
  TimelineRecorder recorder(2);
  recorder.on_interval(run.iteration());
  return recorder.timeline();
}

/// The timeline `seconds` later, as if its run had begun later.
Timeline shifted(Timeline timeline, double seconds) {
  timeline.start_s += seconds;
  timeline.end_s += seconds;
  for (TimelineRow& row : timeline.rows)
    for (TimelineSpan& it : row.spans) {
      it.start += seconds;
      it.end += seconds;
    }
  return timeline;
}

}  // namespace

TEST_CASE("a timeline does not part from itself, whenever it begins") {
  const Timeline simulated = recorded();
  const TimelineComparison same = compare_timelines(simulated, shifted(simulated, 100));
  CHECK(same.simulated_s == Approx(same.measured_s));
  CHECK(same.unmatched == 0);
  CHECK_FALSE(same.diverges_at);
  int spans = 0;
  for (const TimelineComparison::Kind& it : same.kinds) {
    CHECK(it.simulated_s == Approx(it.measured_s));
    spans += it.count;
  }
  int expected = 0;
  for (const TimelineRow& row : simulated.rows)
    if (row.track != Track::receive) expected += static_cast<int>(row.spans.size());
  CHECK(spans == expected);
  CHECK_THAT(format_comparison(TwoStages().topology, simulated, same),
             contains("no computation starts more than 5 % of the iteration earlier or later"));
}

TEST_CASE("timelines part at the first computation that starts later") {
  const Timeline simulated = recorded();
  Timeline measured = simulated;
  const double length = simulated.end_s - simulated.start_s;
  TimelineRow& row = *std::find_if(measured.rows.begin(), measured.rows.end(), [](const TimelineRow& it) {
    return it.device == 1 && it.track == Track::compute;
  });
  REQUIRE(row.spans.size() > 2);
  for (std::size_t i = 1; i < row.spans.size(); ++i) {
    row.spans[i].start += 0.06 * length;
    row.spans[i].end += 0.06 * length;
  }
  const TimelineComparison found = compare_timelines(simulated, measured);
  REQUIRE(found.diverges_at);
  CHECK(found.diverges_at->device == 1);
  CHECK(found.diverges_at->measured.micro_batch == row.spans[1].micro_batch);
  CHECK(found.diverges_at->measured.start - found.diverges_at->simulated.start == Approx(0.06 * length));
  api::SimulateRequest request;
  request.measured = measured;
  api::SimulateResult result;
  result.problem.topology = TwoStages().topology;
  result.comparison = found;
  const nlohmann::ordered_json json = io::simulation_document(request, result).at("measured");
  CHECK(json.at("diverges_at").at("device") == TwoStages().topology.devices[1].id);
  CHECK(json.at("diverges_at").at("micro_batch") == row.spans[1].micro_batch);
  CHECK(json.at("kinds").size() == found.kinds.size());
  CHECK_FALSE(compare_timelines(simulated, measured, 0.07).diverges_at);
  row.spans.pop_back();
  CHECK(compare_timelines(simulated, measured).unmatched == 1);
}
