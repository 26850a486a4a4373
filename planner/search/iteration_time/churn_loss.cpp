#include "planner/search/iteration_time/churn_loss.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/job.hpp"
#include "core/plan/model_state.hpp"
#include "core/plan/sharing_replicas.hpp"

namespace dtfm::search {

double ChurnSlowdown::of(double iteration_s) const {
  constexpr double least = 1e-6;  // completed iterations, relative to a run without churn
  if (scenarios.empty()) return iteration_s;
  double sum = 0;
  for (const Share& it : scenarios) sum += iteration_s / std::max(it.work - it.lost * iteration_s, least);
  return sum / static_cast<double>(scenarios.size());
}

/// The run of one plan under one scenario.
class ChurnRun {
 public:
  ChurnRun(const ChurnLoss& loss, const Churn& churn, const Plan& plan)
      : loss_(loss),
        churn_(churn),
        plan_(plan),
        pipeline_of_(at(loss.topology_->size()), no_index),
        is_missing_(pipeline_of_.size()),
        missing_(plan.pipelines.size()),
        replicas_(sharing_replicas(loss.topology_, plan)) {
    for (int i = 0; at(i) < plan.pipelines.size(); ++i) {
      micro_batches_ += plan.pipelines[at(i)].micro_batches;
      for (const Stage& stage : plan.pipelines[at(i)].stages)
        for (const int device : stage.devices) pipeline_of_[at(device)] = i, ++devices_;
    }
    running_micro_batches_ = micro_batches_;
    for (int device = 0; at(device) < churn.is_spare.size(); ++device)
      if (churn.is_spare[at(device)] && pipeline_of_[at(device)] == no_index) ++spares_;
    steady_share_ = steady_share();
    const bool has_sharing = replicas_ > 1 || plan.execution.token_parts() > 1 || plan.execution.expert > 1;
    is_share_lost_ = traits(plan.execution.optimizer_sharding).optimizer && has_sharing &&
                     at(replicas_) == plan.pipelines.size();
    set_period();
  }

  ChurnSlowdown::Share run() {
    const auto& changes = churn_.changes;
    double last = 0;
    for (std::size_t i = 0; i < changes.size() && changes[i].date_s < churn_.horizon_s;) {
      const double date = std::max(0.0, changes[i].date_s);
      add_time(date - last);
      last = date;
      std::size_t end = i;
      while (end < changes.size() && changes[end].date_s <= date) ++end;
      change(date, i, end);
      i = end;
    }
    add_time(churn_.horizon_s - last);
    const double writing = period_s_ > 0 && std::isfinite(period_s_) ? period_s_ / (period_s_ + save_s_) : 1;
    return {sum_.work / churn_.horizon_s * writing, sum_.lost / churn_.horizon_s * writing};
  }

 private:
  /// Young and Daly's period, if it is open: sqrt(2 × time to write × time between failures).
  void set_period() {
    if (!churn_.checkpoint) return;
    save_s_ = load_s();
    period_s_ = churn_.checkpoint->period_s.value_or(0);
    if (churn_.checkpoint->period_s) return;
    int failures = 0;
    double date = 0;
    for (const Churn::Change& it : churn_.changes) {
      if (it.joins || pipeline_of_[at(it.device)] == no_index || it.date_s <= date) continue;
      date = it.date_s;
      ++failures;
    }
    period_s_ = failures == 0 ? infinity : std::sqrt(2 * save_s_ * churn_.horizon_s / failures);
  }

  /// Bytes that a device of the stage fetches.
  double bytes_of(const Stage& stage) const {
    return loss_.state_bytes(stage.layers) / static_cast<double>(stage.devices.size()) / replicas_;
  }

  /// Of the device with most state.
  double load_s() const {
    double most = 0;
    for (const Pipeline& pipeline : plan_.pipelines)
      for (const Stage& stage : pipeline.stages) most = std::max(most, bytes_of(stage));
    const double bandwidth = churn_.checkpoint->bandwidth_bytes_s;
    return bandwidth > 0 ? most / bandwidth : 0;
  }

  /// From the nearest device of another pipeline with layers of the device's stage.
  double fetch_s(int device) const {
    const int own = pipeline_of_[at(device)];
    double bytes = 0;
    std::pair<int, int> layers;
    for (const Stage& stage : plan_.pipelines[at(own)].stages)
      if (std::find(stage.devices.begin(), stage.devices.end(), device) != stage.devices.end())
        bytes += bytes_of(stage), layers = stage.layers;
    double widest = 0;
    for (int i = 0; at(i) < plan_.pipelines.size(); ++i) {
      if (i == own) continue;
      for (const Stage& stage : plan_.pipelines[at(i)].stages)
        if (stage.layers.first < layers.second && stage.layers.second > layers.first)
          for (const int source : stage.devices)
            if (!is_missing_[at(source)])
              widest = std::max(widest, loss_.topology_->uncontended_bandwidth(source, device).value());
    }
    return widest > 0 ? bytes * bits_per_byte / widest : 0;
  }

  bool are_all_running() const { return missing_devices_ == 0 || missing_devices_ <= spares_; }

  /// Iterations of the whole plan in the time of one.
  double rate() const {
    if (is_over_) return 0;
    if (are_all_running()) return 1;
    if (churn_.waits_for_all) return 0;
    double rate = 0;
    if (running_micro_batches_ > 0) {
      const double more = static_cast<double>(micro_batches_) / running_micro_batches_ - 1;
      rate = 1 / (1 + more * steady_share_);
    }
    if (churn_.computes_copies) rate = std::max(rate, 0.5);
    if (churn_.replans) rate = std::max(rate, 1 - static_cast<double>(missing_devices_) / devices_);
    return rate;
  }

  /// The share of the iteration that grows with the micro-batches of a pipeline: all but warm-up and
  /// cool-down, m ÷ (m + p − 1) for m micro-batches and p stages. The smallest of any pipeline.
  double steady_share() const {
    double least = 1;
    for (const Pipeline& it : plan_.pipelines) {
      const double m = it.micro_batches, p = static_cast<double>(it.stages.size());
      if (m > 0) least = std::min(least, m / (m + p - 1));
    }
    return least;
  }

  void add_time(double seconds) {
    if (rate() == 0) return;  // weights are loaded when something runs again
    const double spent = std::min(seconds, pause_s_);
    pause_s_ -= spent;
    sum_.work += rate() * (seconds - spent);
  }

  void change(double date, std::size_t begin, std::size_t end) {
    bool fails = false, completes = false, is_undetected = false;
    double fetch = 0;
    const double rate_before = rate();
    const bool were_all_running = are_all_running(), had_running = running_micro_batches_ > 0;
    for (std::size_t i = begin; i < end; ++i) {
      const Churn::Change& it = churn_.changes[i];
      const int pipeline = pipeline_of_[at(it.device)];
      if (pipeline == no_index) {
        if (!churn_.is_spare.empty() && churn_.is_spare[at(it.device)]) spares_ += it.joins ? 1 : -1;
        continue;
      }
      if (is_missing_[at(it.device)] == !it.joins) continue;
      is_missing_[at(it.device)] = !it.joins;
      const int micro_batches = plan_.pipelines[at(pipeline)].micro_batches;
      int& missing = missing_[at(pipeline)];
      if (it.joins) {
        --missing_devices_;
        if (--missing > 0) continue;
        running_micro_batches_ += micro_batches;
        if (were_all_running) continue;  // it becomes a spare
        completes = true;
        fetch = std::max(fetch, fetch_s(it.device));
      } else {
        fails |= missing == 0 || were_all_running;
        is_undetected |= !it.is_announced;
        ++missing_devices_;
        if (missing++ == 0) running_micro_batches_ -= micro_batches;
        if (date > 0 && spares_ >= missing_devices_) fetch = std::max(fetch, fetch_s(it.device));
      }
    }
    if (date <= 0) return;
    const bool is_running = running_micro_batches_ > 0 || are_all_running();
    // A device that joins waits for the end of an iteration of the others.
    if (completes && !fails && rate_before > 0) sum_.lost += 0.5 * (rate() / rate_before - 1);
    if (fails && !churn_.resumes_iteration && rate_before > 0) sum_.lost += 0.5;
    const double detection_s = fails && is_undetected && is_running ? churn_.detection_s : 0;
    const bool fetches = is_running && !(fails && churn_.loads_checkpoint);
    // Devices that join during a pause fetch at the same time.
    pause_s_ = std::max(pause_s_, detection_s + (fetches ? fetch : 0));
    const bool is_all_lost = had_running && running_micro_batches_ == 0 && !are_all_running();
    if (fails && (churn_.loads_checkpoint || is_share_lost_ || is_all_lost)) lose_state(date);
  }

  void lose_state(double date) {
    if (!churn_.checkpoint) {
      is_over_ = true;
      return;
    }
    pause_s_ += load_s();
    if (period_s_ > 0) pause_s_ += std::min(date, period_s_) / 2;
  }

  const ChurnLoss& loss_;
  const Churn& churn_;
  const Plan& plan_;
  std::vector<int> pipeline_of_;  // [device]
  std::vector<bool> is_missing_;  // [device]
  std::vector<int> missing_;      // [pipeline]: devices
  int replicas_;                  // that share the state
  bool is_share_lost_ = false;    // with every device
  int devices_ = 0, missing_devices_ = 0, spares_ = 0, micro_batches_ = 0, running_micro_batches_ = 0;
  double steady_share_ = 1;
  double period_s_ = 0, save_s_ = 0;  // of checkpoints, and to write one
  bool is_over_ = false;
  double pause_s_ = 0;  // that is left
  ChurnSlowdown::Share sum_{0, 0};
};

ChurnLoss::ChurnLoss(const Problem& problem, std::vector<Churn> scenarios)
    : topology_(problem.topology), scenarios_(std::move(scenarios)), is_affected_(at(topology_->size())) {
  for (const Churn& churn : scenarios_)
    for (const Churn::Change& it : churn.changes) is_affected_[at(it.device)] = true;
  bytes_before_.push_back(0);
  const double bytes = parameter_bytes(problem.job.training).checkpointed;
  for (const Layer& it : layer_chain(problem.job))
    bytes_before_.push_back(bytes_before_.back() + it.parameters * bytes);
}

ChurnSlowdown ChurnLoss::of(const Plan& plan) const {
  ChurnSlowdown result;
  for (const Churn& churn : scenarios_) result.scenarios.push_back(ChurnRun(*this, churn, plan).run());
  return result;
}

double ChurnLoss::state_bytes(std::pair<int, int> layers) const {
  return bytes_before_[at(layers.second)] - bytes_before_[at(layers.first)];
}

}  // namespace dtfm::search
