#include "simulator/lowering/pipeline_graph.hpp"

#include <array>
#include <set>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "simulator/schedule/schedule.hpp"

namespace dtfm {
namespace {

using Kind = Operation::Kind;

/// Of one direction: where the messages of every stage go, and which have come.
struct Direction {
  Activity activity;
  std::vector<Channel> channels;  // [stage · tensor + rank] of the sender
  std::vector<int> arrived;       // [(stage · micro-batches + micro-batch) · tensor + rank] of the receiver
};

class PipelineGraph {
 public:
  PipelineGraph(GraphBuilder& builder, const LoadModel& model, const Job& job, const Plan& plan, int number);
  PipelineEnds build();

 private:
  int stages() const { return static_cast<int>(pipeline_.stages.size()); }
  int stage_of(const Operation& operation, int device) const { return operation.chunk * devices_ + device; }
  int receiver_of(int stage, Kind kind) const { return kind == Kind::forward ? stage + 1 : stage - 1; }
  bool exists(int stage) const { return stage >= 0 && stage < stages(); }
  int device_of(int stage, int rank) const { return pipeline_.stages[at(stage)].devices[at(rank)]; }
  Direction& direction(Kind kind) { return kind == Kind::forward ? forward_ : backward_; }
  int* arrived(int stage, const Operation& operation);
  Direction make_direction(Kind kind);

  bool can_run(int stage, const Operation& operation);
  void run(int stage, const Operation& operation);
  void run_rank(int stage, const Operation& operation, int rank);
  int compute(int stage, const Operation& operation, int rank, std::span<const int> after);
  void set_gradients(int stage, int rank, int task);
  int backward_by_layers(int stage, const TaskLabel& label, int rank, std::span<const int> after);
  int recode(int stage, int rank, const Operation& operation, double bytes, int which,
             std::span<const int> after);
  TaskLabel label(Activity activity, int stage, const Operation& operation, int rank) const;

  GraphBuilder& builder_;
  const LoadModel& model_;
  const Job& job_;
  const Plan& plan_;
  const Pipeline& pipeline_;
  const int number_, tensor_;
  int devices_ = 1;  // of each rank; the stages go around them
  std::vector<StageLoad> loads_;
  Direction forward_, backward_;
  std::vector<int> backwards_left_;     // of each stage
  std::vector<std::vector<int>> last_;  // [device][rank]: its computations follow each other
  PipelineEnds ends_;
};

/// Stages before a device comes again.
int devices_in_turn(const Pipeline& pipeline) {
  std::set<int> seen;
  for (const Stage& stage : pipeline.stages)
    if (!seen.insert(stage.devices.front()).second) break;
  const auto count = seen.size();
  for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage)
    if (pipeline.stages.size() % count != 0 ||
        pipeline.stages[stage].devices != pipeline.stages[stage % count].devices)
      throw Error("", "the stages of a pipeline do not go around its devices in turn");
  return static_cast<int>(count);
}

PipelineGraph::PipelineGraph(GraphBuilder& builder, const LoadModel& model, const Job& job, const Plan& plan,
                             int number)
    : builder_(builder),
      model_(model),
      job_(job),
      plan_(plan),
      pipeline_(plan.pipelines[at(number)]),
      number_(number),
      tensor_(static_cast<int>(pipeline_.stages.front().devices.size())),
      devices_(devices_in_turn(pipeline_)) {
  for (const Stage& stage : pipeline_.stages) {
    DTFM_ASSERT(static_cast<int>(stage.devices.size()) == tensor_);
    loads_.push_back(model.of(stage));
  }
  forward_ = make_direction(Kind::forward);
  backward_ = make_direction(Kind::backward);
  backwards_left_.assign(pipeline_.stages.size(), pipeline_.micro_batches);
  last_.assign(at(devices_), std::vector<int>(at(tensor_), no_index));
  ends_.gradients.assign(at(model.layers()), std::vector<int>(at(tensor_), no_index));
}

Direction PipelineGraph::make_direction(Kind kind) {
  Direction result{kind == Kind::forward ? Activity::send_activations : Activity::send_gradients, {}, {}};
  result.channels.resize(pipeline_.stages.size() * at(tensor_));
  for (int stage = 0; stage < stages(); ++stage)
    for (int rank = 0; exists(receiver_of(stage, kind)) && rank < tensor_; ++rank)
      result.channels[at(stage * tensor_ + rank)] = builder_.channel(
          device_of(stage, rank), device_of(receiver_of(stage, kind), rank), result.activity);
  result.arrived.assign(pipeline_.stages.size() * at(pipeline_.micro_batches) * at(tensor_), no_index);
  return result;
}

int* PipelineGraph::arrived(int stage, const Operation& operation) {
  const auto message = at(stage) * at(pipeline_.micro_batches) + at(operation.micro_batch);
  return &direction(operation.kind).arrived[message * at(tensor_)];
}

/// Every device goes as far as it can with the messages that are there, again and again, so that tasks come
/// after what they wait for.
PipelineEnds PipelineGraph::build() {
  std::vector<std::vector<Operation>> orders;
  for (int device = 0; device < devices_; ++device)
    orders.push_back(operation_order(plan_.schedule,
                                     {devices_, device, stages() / devices_, pipeline_.micro_batches},
                                     job_.parallelism.flush.value_or(0)));
  std::vector<std::size_t> next(orders.size());
  for (bool all = false; !all;) {
    bool moved = false;
    all = true;
    for (int device = 0; device < devices_; ++device) {
      const auto& order = orders[at(device)];
      for (std::size_t& i = next[at(device)]; i < order.size(); ++i) {
        const int stage = stage_of(order[i], device);
        if (!can_run(stage, order[i])) break;
        run(stage, order[i]);
        moved = true;
      }
      all = all && next[at(device)] == order.size();
    }
    DTFM_ASSERT(moved || all);  // else the schedule waits for itself
  }
  for (const auto& ranks : last_) ends_.last.insert(ends_.last.end(), ranks.begin(), ranks.end());
  return std::move(ends_);
}

bool PipelineGraph::can_run(int stage, const Operation& operation) {
  const int sender = operation.kind == Kind::forward ? stage - 1 : stage + 1;
  return !exists(sender) || *arrived(stage, operation) != no_index;
}

void PipelineGraph::run(int stage, const Operation& operation) {
  if (operation.kind == Kind::backward) --backwards_left_[at(stage)];
  for (int rank = 0; rank < tensor_; ++rank) run_rank(stage, operation, rank);
}

TaskLabel PipelineGraph::label(Activity activity, int stage, const Operation& operation, int rank) const {
  TaskLabel label;
  label.activity = activity;
  label.pipeline = number_;
  label.stage = stage;
  label.micro_batch = operation.micro_batch;
  if (tensor_ > 1) label.rank = rank;
  return label;
}

/// Compresses or expands the activations (or their gradients) of a message, if that takes time; else the task
/// that would have been waited for. `which`: 0 and 1 expand, 2 and 3 compress, forward and backward.
int PipelineGraph::recode(int stage, int rank, const Operation& operation, double bytes, int which,
                          std::span<const int> after) {
  TaskLabel of = label(Activity::compress, stage, operation, rank);
  of.phase = which;
  const double uncompressed = bytes / job_.compression.activations;
  return builder_.compute(device_of(stage, rank),
                          (Bytes(uncompressed) / *job_.compression.throughput).value(), after, of);
}

void PipelineGraph::run_rank(int stage, const Operation& operation, int rank) {
  const bool forward = operation.kind == Kind::forward;
  const bool recodes = job_.compression.throughput && job_.compression.activations != 1;
  int& last = last_[at(stage % devices_)][at(rank)];
  std::vector<int> after = {last};
  const int sender = forward ? stage - 1 : stage + 1, receiver = receiver_of(stage, operation.kind);
  if (exists(sender))
    after.insert(after.end(), arrived(stage, operation), arrived(stage, operation) + tensor_);
  if (exists(sender) && recodes)
    after = {recode(stage, rank, operation, loads_[at(forward ? sender : stage)].output_bytes,
                    forward ? 0 : 1, after)};
  last = compute(stage, operation, rank, after);
  if (!exists(receiver)) return;
  const double bytes = loads_[at(forward ? stage : receiver)].output_bytes;
  if (recodes) last = recode(stage, rank, operation, bytes, forward ? 2 : 3, std::array{last});
  Direction& to = direction(operation.kind);
  const int message = arrived(receiver, operation)[rank] =
      builder_.send(to.channels[at(stage * tensor_ + rank)], bytes, std::array{last},
                    label(to.activity, stage, operation, rank));
  if (!forward && backwards_left_[at(stage)] == 0 && !job_.parallelism.overlap)
    set_gradients(stage, rank, message);
}

void PipelineGraph::set_gradients(int stage, int rank, int task) {
  const auto [begin, end] = pipeline_.stages[at(stage)].layers;
  for (int layer = begin; layer < end; ++layer) ends_.gradients[at(layer)][at(rank)] = task;
}

int PipelineGraph::compute(int stage, const Operation& operation, int rank, std::span<const int> after) {
  const StageLoad& load = loads_[at(stage)];
  const int device = device_of(stage, rank);
  if (operation.kind == Kind::forward)
    return builder_.compute(device, load.forward_s, after, label(Activity::forward, stage, operation, rank));
  const TaskLabel of = label(Activity::backward, stage, operation, rank);
  const auto [begin, end] = pipeline_.stages[at(stage)].layers;
  const bool is_last = backwards_left_[at(stage)] == 0;
  if (is_last && job_.parallelism.overlap && begin < end) return backward_by_layers(stage, of, rank, after);
  const int task = builder_.compute(device, load.backward_s, after, of);
  if (is_last) set_gradients(stage, rank, task);
  return task;
}

int PipelineGraph::backward_by_layers(int stage, const TaskLabel& label, int rank,
                                      std::span<const int> after) {
  const auto [begin, end] = pipeline_.stages[at(stage)].layers;
  int task = no_index;
  for (int layer = end - 1; layer >= begin; --layer) {
    TaskLabel of = label;
    of.layer = layer;
    const std::array before{task};
    task = builder_.compute(device_of(stage, rank), model_.backward_s(pipeline_.stages[at(stage)], layer),
                            task == no_index ? after : std::span<const int>(before), of);
    ends_.gradients[at(layer)][at(rank)] = task;
  }
  return task;
}

}  // namespace

PipelineEnds add_pipeline(GraphBuilder& builder, const LoadModel& model, const Job& job, const Plan& plan,
                          int number) {
  return PipelineGraph(builder, model, job, plan, number).build();
}

}  // namespace dtfm
