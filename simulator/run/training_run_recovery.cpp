// Training run: recoveries, in which weights are fetched, and checkpoints.
#include <algorithm>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "simulator/run/training_run.hpp"

namespace dtfm::sim {

bool TrainingRun::has_periodic_checkpoint() const {
  return scenario_.checkpoint && scenario_.checkpoint->period_s > 0;
}

std::vector<StageShard> TrainingRun::wanted_shards() const {
  const Plan computed = expand_virtual_stages(plan_);
  std::vector<StageShard> shards = stage_shards(computed, running_);
  if (!policy_.keeps_copies) return shards;
  const std::vector<StageShard> copies =
      redundant_shards(computed, initial_plan_, running_, device_timeline_.available());
  shards.insert(shards.end(), copies.begin(), copies.end());
  return shards;
}

/// Before the first completed iteration there is nothing to fetch: weights are initialized from the seed.
std::vector<Fetch> TrainingRun::plan_missing_fetches() const {
  if (report_.iterations.empty()) return {};
  return plan_fetches(problem_, plan_, wanted_shards(), held_shards_);
}

/// Returns true if all running devices already have their weights, so that the iteration can start.
bool TrainingRun::recover() {
  std::vector<Fetch> fetches = plan_missing_fetches();
  const auto lost =
      std::find_if(fetches.begin(), fetches.end(), [](const Fetch& fetch) { return !fetch.from; });
  if (lost != fetches.end()) {
    if (!scenario_.checkpoint) {
      stop_for(
          fmt::format("no available device has the weights of layers {} to {}, and the scenario has no "
                      "checkpoint",
                      lost->layers.first, lost->layers.second - 1));
      return false;
    }
    if (checkpointed_iterations() < report_.iterations.size()) {
      roll_back();
      fetches = plan_missing_fetches();
    }
  }
  return fetches.empty() || fetch(fetches);
}

/// Always returns false: time has passed, so the caller must reconsider the state before the next iteration.
bool TrainingRun::fetch(const std::vector<Fetch>& fetches) {
  for (const Fetch& fetch : fetches)
    if (fetch.from) is_needed_[at(*fetch.from)] = true;
  LabelledGraph graph = recovery_graph(problem_, fetches, scenario_.checkpoint);
  const ReplayedInterval replayed =
      replay_interval(graph, ScenarioProfiles(scenario_, problem_.topology, graph), now_);
  if (replayed.ended == ReplayEnd::stopped) {
    interrupt();
    return false;
  }
  double bytes = 0;
  for (const Fetch& fetch : fetches) bytes += fetch.bytes;
  note(now_, fmt::format("recovery: fetching {:.4g} GB of weights{}", bytes / 1e9,
                         replayed.ended == ReplayEnd::finished ? "" : ", aborted"));
  notify_observers(make_interval(RunInterval::Kind::recovery, replayed, graph));
  if (replayed.ended == ReplayEnd::finished) {
    std::vector<StageShard> shards = wanted_shards();
    std::vector<bool> has_shard(is_running_.size());
    for (const StageShard& shard : shards) has_shard[at(shard.device)] = true;
    for (StageShard& shard : held_shards_)
      if (!has_shard[at(shard.device)]) shards.push_back(std::move(shard));
    held_shards_ = std::move(shards);
    is_needed_ = is_running_;
  }
  const bool is_deadlocked = stays_deadlocked(replayed);
  advance(replayed.end);
  if (is_deadlocked) stop_for("fetching the weights is deadlocked");
  return false;
}

std::size_t TrainingRun::checkpointed_iterations() const {
  return has_periodic_checkpoint() ? checkpointed_iterations_ : report_.iterations.size();
}

/// Goes back to the checkpoint: later iterations are lost, and no device holds valid weights any more.
void TrainingRun::roll_back() {
  if (report_.iterations.empty()) return;
  if (!scenario_.checkpoint)
    return stop_for(
        fmt::format("policy `{}` loads the last checkpoint, but the scenario has none", policy_.name));
  held_shards_.clear();
  const std::size_t lost = report_.iterations.size() - checkpointed_iterations();
  if (lost == 0) return;
  note(now_, fmt::format("{} iteration{} after the last checkpoint {} lost", lost, lost == 1 ? "" : "s",
                         lost == 1 ? "is" : "are"));
  report_.iterations.resize(checkpointed_iterations());
  report_.rolled_back += static_cast<int>(lost);
  report_.lost_work_s += uncheckpointed_work_s_;
  uncheckpointed_work_s_ = 0;
}

bool TrainingRun::is_checkpoint_due() const {
  return has_periodic_checkpoint() && !is_over() && !iteration_aborted_ &&
         now_ - checkpointed_at_ >= scenario_.checkpoint->period_s;
}

/// Writing is synchronous: no device computes meanwhile.
void TrainingRun::write_checkpoint() {
  const auto first = std::find(running_.begin(), running_.end(), true) - running_.begin();
  const Plan computed = expand_virtual_stages(plan_);
  LabelledGraph graph = checkpoint_graph(problem_, plan_, computed.pipelines[static_cast<std::size_t>(first)],
                                         static_cast<int>(first), *scenario_.checkpoint);
  const ReplayedInterval replayed =
      replay_interval(graph, ScenarioProfiles(scenario_, problem_.topology, graph), now_);
  if (replayed.ended == ReplayEnd::stopped) return interrupt();
  notify_observers(make_interval(RunInterval::Kind::checkpoint, replayed, graph));
  const bool is_done = replayed.ended == ReplayEnd::finished;
  note(now_, is_done ? "a checkpoint is written" : "writing a checkpoint is aborted");
  if (is_done) {
    checkpointed_iterations_ = report_.iterations.size();
    checkpointed_at_ = replayed.end;
    uncheckpointed_work_s_ = 0;
    ++report_.checkpoints;
  }
  const bool is_deadlocked = stays_deadlocked(replayed);
  advance(replayed.end);
  if (is_deadlocked) stop_for("writing the checkpoint is deadlocked");
}

}  // namespace dtfm::sim
