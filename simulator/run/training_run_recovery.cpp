// Of a run: weights that are fetched, and checkpoints.
#include <algorithm>

#include <fmt/format.h>

#include "planner/core/index.hpp"
#include "simulator/run/training_run.hpp"

namespace dtfm::sim {

bool TrainingRun::saves_by_period() const {
  return scenario_.checkpoint && scenario_.checkpoint->period_s > 0;
}

std::vector<Place> TrainingRun::wanted_places() const {
  const Plan computed = computed_stages(problem_.job, plan_);
  std::vector<Place> places = places_of(computed, running_);
  if (!policy_.keeps_copies) return places;
  const std::vector<Place> copies = copies_of(computed, home_, running_, machines_.there());
  places.insert(places.end(), copies.begin(), copies.end());
  return places;
}

/// Before the first iteration there is nothing to fetch.
std::vector<Fetch> TrainingRun::missing() const {
  if (report_.iterations.empty()) return {};
  return fetches_of(problem_, plan_, wanted_places(), held_);
}

/// True when all who run have their weights, and nothing has had to be fetched for it.
bool TrainingRun::recover() {
  std::vector<Fetch> fetches = missing();
  const auto lost =
      std::find_if(fetches.begin(), fetches.end(), [](const Fetch& fetch) { return !fetch.from; });
  if (lost != fetches.end()) {
    if (!scenario_.checkpoint) {
      stop_for(
          fmt::format("no device that is there has the weights of layers {} to {}, and the scenario names "
                      "no checkpoint",
                      lost->layers.first, lost->layers.second - 1));
      return false;
    }
    if (saved_iterations() < report_.iterations.size()) {
      roll_back();
      fetches = missing();
    }
  }
  return fetches.empty() || fetch(fetches);
}

/// False: whoever is next to do something has to look at the state of things.
bool TrainingRun::fetch(const std::vector<Fetch>& fetches) {
  for (const Fetch& fetch : fetches)
    if (fetch.from) is_needed_[at(*fetch.from)] = true;
  LabelledGraph graph = recovery_graph(problem_, fetches, scenario_.checkpoint);
  const Played played = play(graph, ScenarioProfiles(scenario_, problem_.topology, graph));
  if (played.ended == ReplayEnd::stopped) {
    interrupt();
    return false;
  }
  double bytes = 0;
  for (const Fetch& fetch : fetches) bytes += fetch.bytes;
  note(now_, fmt::format("recovery: {:.4g} GB of weights are fetched{}", bytes / 1e9,
                         played.ended == ReplayEnd::finished ? "" : ", in vain"));
  show(stretch_of(Stretch::Kind::recovery, played, graph));
  if (played.ended == ReplayEnd::finished) {
    std::vector<Place> places = wanted_places();
    std::vector<bool> has_place(runs_.size());
    for (const Place& place : places) has_place[at(place.device)] = true;
    for (Place& place : held_)
      if (!has_place[at(place.device)]) places.push_back(std::move(place));
    held_ = std::move(places);
    is_needed_ = runs_;
  }
  const bool is_stuck = stays_stuck(played);
  advance(played.end);
  if (is_stuck) stop_for("the weights never come");
  return false;
}

std::size_t TrainingRun::saved_iterations() const {
  return saves_by_period() ? saved_ : report_.iterations.size();
}

/// To the checkpoint: what came after it was in vain, and nobody has its weights.
void TrainingRun::roll_back() {
  if (report_.iterations.empty()) return;
  if (!scenario_.checkpoint)
    return stop_for(
        fmt::format("under the policy `{}` all load the last checkpoint, and the scenario names "
                    "none",
                    policy_.name));
  held_.clear();
  const std::size_t lost = report_.iterations.size() - saved_iterations();
  if (lost == 0) return;
  note(now_, fmt::format("{} iteration{} after the last checkpoint {} lost", lost, lost == 1 ? "" : "s",
                         lost == 1 ? "is" : "are"));
  report_.iterations.resize(saved_iterations());
  report_.rolled_back += static_cast<int>(lost);
  report_.lost_work_s += unsaved_work_s_;
  unsaved_work_s_ = 0;
}

bool TrainingRun::is_checkpoint_due() const {
  return saves_by_period() && !is_over() && !is_broken_ && now_ - saved_at_ >= scenario_.checkpoint->period_s;
}

/// Synchronous: nobody computes meanwhile.
void TrainingRun::save() {
  const auto first = std::find(running_.begin(), running_.end(), true) - running_.begin();
  const Plan computed = computed_stages(problem_.job, plan_);
  LabelledGraph graph = checkpoint_graph(problem_, plan_, computed.pipelines[static_cast<std::size_t>(first)],
                                         static_cast<int>(first), *scenario_.checkpoint);
  const Played played = play(graph, ScenarioProfiles(scenario_, problem_.topology, graph));
  if (played.ended == ReplayEnd::stopped) return interrupt();
  show(stretch_of(Stretch::Kind::checkpoint, played, graph));
  const bool is_done = played.ended == ReplayEnd::finished;
  note(now_, fmt::format("a checkpoint is written{}", is_done ? "" : ", in vain"));
  if (is_done) {
    saved_ = report_.iterations.size();
    saved_at_ = played.end;
    unsaved_work_s_ = 0;
    ++report_.checkpoints;
  }
  const bool is_stuck = stays_stuck(played);
  advance(played.end);
  if (is_stuck) stop_for("the checkpoint is never written");
}

}  // namespace dtfm::sim
