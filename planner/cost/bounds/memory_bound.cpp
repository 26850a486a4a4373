#include "planner/cost/bounds/memory_bound.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/model_state.hpp"
#include "planner/cost/iteration_time/stage_memory.hpp"

namespace dtfm::cost {
namespace {

/// Relative. Sums are rounded differently elsewhere.
constexpr double rounding = 1e-9;

const MemoryNeed& smaller(const MemoryNeed& a, const MemoryNeed& b) {
  return b.ratio() < a.ratio() ? b : a;
}

/// What the plans of one job need at least.
class MemoryDemand {
 public:
  MemoryDemand(const Job& job, const MemorySupply& supply, const PlanLimits& limits)
      : job_(job),
        limits_(limits),
        process_bytes_(supply.process_bytes()),
        memory_(job, process_bytes_, devices_per_stage(job)),
        keeps_some_(job.execution.recompute_layers || traits(job.execution.recomputation).is_per_stage()) {
    const int most = std::min(supply.devices() / devices(), micro_batch_count(job));
    max_replicas_ = std::min(most, limits.replicas.value_or(most));
    for (int layer = 0; layer < memory_.layers(); ++layer)
      kept_ += std::min(kept(layer, 1), keeps_some_ ? kept(layer, 0) : infinity);
  }

  int devices() const { return memory_.mesh().devices(); }
  int layers() const { return memory_.layers(); }
  int max_replicas() const { return max_replicas_; }
  int max_devices_per_replica(int devices_per_stage) const {
    const OptimizerShardingTraits& sharding = traits(job_.execution.optimizer_sharding);
    const int stages = sharding.gradients ? 1 : limits_.stages.value_or(layers());
    return std::min(stages, layers()) * devices_per_stage;
  }

  /// With the number of replicas for which the ratio of needed to available memory is smallest, the fewest in
  /// a tie. A stage has at most `devices_per_stage` devices.
  MemoryNeed sum_need(const MemorySupply& supply, int devices_per_stage) const {
    MemoryNeed least = no_stage();
    for (int replicas = limits_.replicas.value_or(1); replicas <= max_replicas_; ++replicas) {
      MemoryNeed it = described(MemoryNeed::Kind::sum);
      it.replicas = replicas;
      it.devices = std::min(supply.devices(), replicas * max_devices_per_replica(devices_per_stage));
      it.state_bytes = replicas * devices() * memory_.needs({0, layers()}, replicas, 0).state;
      it.needed_bytes = it.state_bytes + replicas * devices() * kept_;
      it.available_bytes = supply.sum(it.devices);
      if (!(it.ratio() >= least.ratio() * (1 - rounding))) least = it;
      if (it.devices == supply.devices()) break;  // more replicas only need more
    }
    return least;
  }

  /// `replicas`: the most that the layer may have.
  MemoryNeed layer_need(const MemorySupply& supply, int replicas, int layer) const {
    const double available = supply.of_stage(devices(), memory_.mesh().tensor);
    if (max_replicas_ < 1 || available <= 0) return no_stage();
    MemoryNeed it = described(MemoryNeed::Kind::layer);
    it.layer = layer;
    it.devices = devices();
    // The increment for a stage that begins at the first layer, so that tied parameters count only once.
    it.state_bytes =
        memory_.needs({0, layer + 1}, replicas, 0).state - memory_.needs({0, layer}, replicas, 0).state;
    it.needed_bytes = it.state_bytes +
                      std::min(while_computing(layer, 1), keeps_some_ ? while_computing(layer, 0) : infinity);
    it.available_bytes = available;
    return it;
  }

 private:
  double kept(int layer, int recomputed) const { return memory_.kept_bytes({layer, layer + 1}, recomputed); }
  double while_computing(int layer, int recomputed) const {
    return kept(layer, recomputed) + memory_.needs({layer, layer + 1}, 1, recomputed).working -
           process_bytes_;
  }

  MemoryNeed described(MemoryNeed::Kind kind) const {
    MemoryNeed it;
    it.kind = kind;
    it.parameters =
        memory_.bytes().elements({0, layers()}, true) + memory_.bytes().expert_elements({0, layers()});
    it.state_bytes_per_parameter = parameter_bytes(job_.training).resident;
    return it;
  }
  /// There are too few devices for a stage, or for the replicas.
  MemoryNeed no_stage() const {
    MemoryNeed it = described(MemoryNeed::Kind::sum);
    it.needed_bytes = infinity;
    return it;
  }

  const Job& job_;
  const PlanLimits& limits_;
  double process_bytes_;
  StageMemory memory_;
  bool keeps_some_;  // layers that are not recomputed
  int max_replicas_ = 0;
  double kept_ = 0;  // at least of a micro-batch, on each of the devices that divide its layers
};

}  // namespace

MemorySupply::MemorySupply(const Topology& topology, const std::vector<int>& devices, double process_bytes)
    : process_bytes_(process_bytes) {
  std::map<int, std::vector<double>> by_host;
  for (const int device : devices) {
    const Device& it = topology.devices[at(device)];
    const double bytes =
        it.gpu < 0 ? infinity : std::max(0.0, topology.gpus[at(it.gpu)].memory.value() - process_bytes);
    largest_.push_back(bytes);
    by_host[it.host].push_back(bytes);
  }
  std::sort(largest_.begin(), largest_.end(), std::greater<>());
  sums_ = {0};
  for (const double bytes : largest_) sums_.push_back(sums_.back() + bytes);
  for (auto& [host, all] : by_host) {
    std::sort(all.begin(), all.end(), std::greater<>());
    by_host_.push_back(std::move(all));
  }
}

double MemorySupply::sum(int count) const {
  return sums_[at(std::min(count, devices()))];
}

double MemorySupply::of_stage(int devices, int tensor) const {
  if (devices > this->devices()) return 0;
  double most = 0;
  for (const std::vector<double>& host : by_host_)
    if (at(tensor) <= host.size()) most = std::max(most, host[at(tensor - 1)]);
  return std::min(most, largest_[at(devices - 1)]);
}

double MemoryNeed::ratio() const {
  return needed_bytes == 0 ? 0 : needed_bytes / available_bytes;
}

bool MemoryNeed::is_short() const {
  return std::isfinite(ratio()) && ratio() > 1 + rounding;
}

MemoryNeed memory_need(const std::vector<Job>& jobs, const MemorySupply& supply, const PlanLimits& limits) {
  DTFM_ASSERT(!jobs.empty());
  std::vector<MemoryDemand> demands;
  for (const Job& job : jobs) demands.emplace_back(job, supply, limits);
  int devices_per_stage = 0, max_replicas = 0;
  for (const MemoryDemand& it : demands) {
    devices_per_stage = std::max(devices_per_stage, it.devices());
    max_replicas = std::max(max_replicas, it.max_replicas());
  }
  const auto least_of = [&](const auto& need_of) {
    MemoryNeed least = need_of(demands.front());
    for (const MemoryDemand& it : demands) least = smaller(least, need_of(it));
    return least;
  };
  MemoryNeed largest =
      least_of([&](const MemoryDemand& it) { return it.sum_need(supply, devices_per_stage); });
  for (int layer = 0; layer < demands.front().layers(); ++layer) {
    const MemoryNeed of_layer =
        least_of([&](const MemoryDemand& it) { return it.layer_need(supply, max_replicas, layer); });
    if (of_layer.ratio() > largest.ratio()) largest = of_layer;
  }
  return largest;
}

}  // namespace dtfm::cost
