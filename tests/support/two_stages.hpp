// One iteration of a pipeline of two stages with two micro-batches, worked out by hand: seconds and bytes.
//
//          0   1   2  2.5  3.5  4   5       7   8.5  9   10  10.5   12  12.5
//   a/0    F0  F1  ·   ·    ·   ·   ·       ·   B0   B0  ·   B1     step
//   a → b      A0  A0  A1   A1                                           (A1 is ready at 2)
//   b/0    ·   ·   ·   F0   ·   F1  B0      B1  B1   ·   ·   ·
//   b → a                                   G0       G1  G1
#pragma once

#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/cluster/topology.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/memory_use.hpp"

namespace dtfm {
using namespace sim;

class TwoStages {
 public:
  Topology topology;
  LabelledGraph labelled;
  Replay result;

  TwoStages() {
    topology.name = "two";
    topology.sites = {{"a"}, {"b"}};
    topology.gpus = {{"small", Bytes(600), {}}, {"large", Bytes(1200), {}}};
    topology.devices = {device("a/0", 0, 1), device("b/0", 1, 0)};
    topology.links = MeasuredLinks{Eigen::MatrixXd::Zero(2, 2), Eigen::MatrixXd::Ones(2, 2)};
    labelled.graph.hosts.resize(2);
    labelled.graph.queues = 2;
    const int f00 = compute(Activity::forward, 0, 0, {}, 0, 0, 1);
    const int f01 = compute(Activity::forward, 0, 1, {f00}, 1, 1, 2);
    const int a0 = message(Activity::send_activations, 0, 0, f00, 1, 1, 2.5);
    const int a1 = message(Activity::send_activations, 0, 1, f01, 2, 2.5, 4);
    const int f10 = compute(Activity::forward, 1, 0, {a0}, 2.5, 2.5, 3.5);
    const int f11 = compute(Activity::forward, 1, 1, {f10, a1}, 4, 4, 5);
    const int b10 = compute(Activity::backward, 1, 0, {f11}, 5, 5, 7);
    const int b11 = compute(Activity::backward, 1, 1, {b10}, 7, 7, 9);
    const int g0 = message(Activity::send_gradients, 1, 0, b10, 7, 7, 8.5);
    const int g1 = message(Activity::send_gradients, 1, 1, b11, 9, 9, 10.5);
    const int b00 = compute(Activity::backward, 0, 0, {f01, g0}, 8.5, 8.5, 10);
    const int b01 = compute(Activity::backward, 0, 1, {b00, g1}, 10.5, 10.5, 12);
    add(TaskKind::delay, {Activity::step}, {b01, b11}, 12, 12, 12.5);
    result.makespan = 12.5;
  }

  /// Returns the first iteration, from 0 to 12.5 s.
  RunInterval iteration() const { return {RunInterval::Kind::iteration, 0, 0, 12.5, labelled, result}; }

  /// Aborts the iteration at `end`, as a device failure would.
  void abort_at(double end) {
    for (TaskRecord& record : result.tasks) {
      if (record.finish <= end) continue;
      const bool has_started = record.start <= end;
      record.state = has_started ? TaskState::aborted : TaskState::blocked;
      record.finish = TaskRecord::never;
      if (!has_started) record.start = TaskRecord::never;
      if (!(record.ready <= end)) record.ready = TaskRecord::never;
    }
  }

 private:
  static Device device(const char* id, int location, int gpu) {
    Device device;
    device.id = id;
    device.site = device.host = location;
    device.gpu = gpu;
    return device;
  }
  int add(TaskKind kind, const TaskLabel& label, const std::vector<int>& after, double ready, double start,
          double finish) {
    Task task;
    task.kind = kind;
    task.host = label.device;
    task.destination = label.peer;
    task.first_after = static_cast<int>(labelled.graph.after.size());
    task.after_count = static_cast<int>(after.size());
    if (kind == TaskKind::flow) {
      task.queue = label.device;
      task.amount = label.activity == Activity::send_activations ? 100 : 60;
    }
    labelled.graph.after.insert(labelled.graph.after.end(), after.begin(), after.end());
    labelled.graph.tasks.push_back(task);
    labelled.labels.push_back(label);
    result.tasks.push_back({TaskState::done, ready, start, finish});
    return static_cast<int>(result.tasks.size()) - 1;
  }
  int compute(Activity activity, int device, int micro_batch, const std::vector<int>& after, double ready,
              double start, double finish) {
    return add(TaskKind::compute, {activity, device, no_index, 0, device, micro_batch}, after, ready, start,
               finish);
  }
  int message(Activity activity, int device, int micro_batch, int after, double ready, double start,
              double finish) {
    return add(TaskKind::flow, {activity, device, 1 - device, 0, device, micro_batch}, {after}, ready, start,
               finish);
  }
};

/// What the stages hold in bytes: 1 GB and 0.5 GB, and 100 MB and 10 MB per micro-batch.
inline sim::StageMemory memory_of_two(int, int stage) {
  return stage == 0 ? sim::StageMemory{1e9, 1e8, 0} : sim::StageMemory{5e8, 1e7, 0};
}

}  // namespace dtfm
