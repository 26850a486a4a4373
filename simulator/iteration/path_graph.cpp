#include "simulator/iteration/path_graph.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::sim {
namespace {

/// The forward or backward of a micro-batch at one position of its path.
struct PathOperation {
  int micro_batch = 0, position = 0;
  bool forward = true;
};

class PathGraph {
 public:
  PathGraph(GraphBuilder& builder, const LoadModel& model, const Plan& plan, const PathSchedule& paths)
      : builder_(builder),
        model_(model),
        plan_(plan),
        paths_(paths),
        adds_compression_(model.activation_compression_s(1) > 0),
        next_operation_(paths.paths.size()),
        arrived_(paths.paths.size(), no_index) {
    for (const Pipeline& pipeline : plan.pipelines) {
      loads_.emplace_back();
      ends_.emplace_back();
      ends_.back().gradients.assign(at(model.layers()), {no_index});
      for (const Stage& stage : pipeline.stages) {
        DTFM_ASSERT(stage.devices.size() == 1);
        loads_.back().push_back(model.of(stage));
        ends_.back().last.push_back({no_index});
      }
    }
  }

  std::vector<PipelineEndTasks> build() {
    for (const int micro_batch : paths_.order) run(next_operation(micro_batch));
    for (std::size_t i = 0; i < next_operation_.size(); ++i)
      DTFM_ASSERT(next_operation_[i] == 2 * paths_.paths[i].size());
    return std::move(ends_);
  }

 private:
  PathOperation next_operation(int micro_batch) {
    const std::size_t operation = next_operation_[at(micro_batch)]++,
                      length = paths_.paths[at(micro_batch)].size();
    DTFM_ASSERT(operation < 2 * length);
    const bool forward = operation < length;
    return {micro_batch, static_cast<int>(forward ? operation : 2 * length - 1 - operation), forward};
  }

  const Visit& visit_at(int micro_batch, int position) const {
    return paths_.paths[at(micro_batch)][at(position)];
  }
  bool exists(int micro_batch, int position) const {
    return position >= 0 && at(position) < paths_.paths[at(micro_batch)].size();
  }
  const StageLoad& load(const Visit& it) const { return loads_[at(it.pipeline)][at(it.stage)]; }
  const Stage& stage(const Visit& it) const { return plan_.pipelines[at(it.pipeline)].stages[at(it.stage)]; }

  TaskLabel label(Activity activity, const PathOperation& operation) const {
    const Visit& visit = visit_at(operation.micro_batch, operation.position);
    TaskLabel label;
    label.activity = activity;
    label.pipeline = visit.pipeline;
    label.stage = visit.stage;
    label.micro_batch = operation.micro_batch;
    return label;
  }

  void run(const PathOperation& operation) {
    const Visit& here = visit_at(operation.micro_batch, operation.position);
    const int direction = operation.forward ? 1 : -1;
    int& last = ends_[at(here.pipeline)].last[at(here.stage)].front();
    int received = no_index;
    if (exists(operation.micro_batch, operation.position - direction)) {
      received = arrived_[at(operation.micro_batch)];
      if (adds_compression_ && is_compressed(operation, operation.position - direction, operation.position)) {
        last = add_compression(operation, operation.position - direction, operation.forward ? 0 : 1,
                               std::array{last, received});
        received = no_index;
      }
    }
    last = builder_.compute(stage(here).devices.front(),
                            operation.forward ? load(here).forward_s : load(here).backward_s,
                            std::array{last, received}, label(computation(operation), operation));
    int sent = last;
    if (exists(operation.micro_batch, operation.position + direction)) {
      if (adds_compression_ && is_compressed(operation, operation.position, operation.position + direction))
        last = add_compression(operation, operation.position + direction, operation.forward ? 2 : 3,
                               std::array{last});
      sent = arrived_[at(operation.micro_batch)] = send(operation, operation.position + direction, last);
    }
    if (operation.forward) return;
    const auto [begin, end] = stage(here).layers;
    for (int layer = begin; layer < end; ++layer)
      ends_[at(here.pipeline)].gradients[at(layer)].front() = sent;
  }

  static Activity computation(const PathOperation& operation) {
    return operation.forward ? Activity::forward : Activity::backward;
  }

  int device(const PathOperation& operation, int position) const {
    return stage(visit_at(operation.micro_batch, position)).devices.front();
  }
  /// Whether the message from position `from` to position `to` of the path is compressed.
  bool is_compressed(const PathOperation& operation, int from, int to) const {
    return model_.is_compressed(device(operation, from), device(operation, to));
  }

  /// Uncompressed bytes of the message between the operation's position and a neighbouring one. In both
  /// directions this is the output of the position that comes first on the path.
  double bytes(const PathOperation& operation, int other_position) const {
    return load(visit_at(operation.micro_batch, std::min(operation.position, other_position))).output_bytes;
  }

  int send(const PathOperation& operation, int to, int after) {
    const Activity activity = operation.forward ? Activity::send_activations : Activity::send_gradients;
    const int from = device(operation, operation.position), receiver = device(operation, to);
    const double whole = bytes(operation, to);
    const double sent =
        is_compressed(operation, operation.position, to) ? model_.compressed_activations(whole) : whole;
    return builder_.send(builder_.channel(from, receiver, activity), sent, std::array{after},
                         label(activity, operation));
  }

  /// Phases 0 and 1 decompress, 2 and 3 compress; the even ones forward, the odd ones backward.
  int add_compression(const PathOperation& operation, int other_position, int phase,
                      std::span<const int> after) {
    TaskLabel of = label(Activity::compress, operation);
    of.phase = phase;
    return builder_.compute(device(operation, operation.position),
                            model_.activation_compression_s(bytes(operation, other_position)), after, of);
  }

  GraphBuilder& builder_;
  const LoadModel& model_;
  const Plan& plan_;
  const PathSchedule& paths_;
  const bool adds_compression_;                // compressing messages takes time
  std::vector<std::vector<StageLoad>> loads_;  // [pipeline][stage]
  std::vector<std::size_t> next_operation_;    // [micro-batch]: number of its operations added so far
  std::vector<int> arrived_;                   // [micro-batch]: task of the last message sent for it
  std::vector<PipelineEndTasks> ends_;
};

}  // namespace

std::vector<PipelineEndTasks> add_paths(GraphBuilder& builder, const LoadModel& model, const Plan& plan,
                                        const PathSchedule& paths) {
  return PathGraph(builder, model, plan, paths).build();
}

}  // namespace dtfm::sim
