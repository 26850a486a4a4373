#include "simulator/iteration/path_graph.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm::sim {
namespace {

/// What a micro-batch is about to do.
struct Turn {
  int micro_batch = 0, position = 0;  // on its path
  bool forward = true;
};

class PathGraph {
 public:
  PathGraph(GraphBuilder& builder, const LoadModel& model, const Plan& plan, const PathSchedule& paths)
      : builder_(builder),
        model_(model),
        plan_(plan),
        paths_(paths),
        recodes_(model.activation_recode_s(1) > 0),
        turns_(paths.paths.size()),
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

  std::vector<PipelineEnds> build() {
    for (const int micro_batch : paths_.order) run(next_turn(micro_batch));
    for (std::size_t i = 0; i < turns_.size(); ++i) DTFM_ASSERT(turns_[i] == 2 * paths_.paths[i].size());
    return std::move(ends_);
  }

 private:
  Turn next_turn(int micro_batch) {
    const std::size_t turn = turns_[at(micro_batch)]++, length = paths_.paths[at(micro_batch)].size();
    DTFM_ASSERT(turn < 2 * length);
    const bool forward = turn < length;
    return {micro_batch, static_cast<int>(forward ? turn : 2 * length - 1 - turn), forward};
  }

  const Visit& place(int micro_batch, int position) const {
    return paths_.paths[at(micro_batch)][at(position)];
  }
  bool exists(int micro_batch, int position) const {
    return position >= 0 && at(position) < paths_.paths[at(micro_batch)].size();
  }
  const StageLoad& load(const Visit& it) const { return loads_[at(it.pipeline)][at(it.stage)]; }
  const Stage& stage(const Visit& it) const { return plan_.pipelines[at(it.pipeline)].stages[at(it.stage)]; }

  TaskLabel label(Activity activity, const Turn& turn) const {
    const Visit& its = place(turn.micro_batch, turn.position);
    TaskLabel label;
    label.activity = activity;
    label.pipeline = its.pipeline;
    label.stage = its.stage;
    label.micro_batch = turn.micro_batch;
    return label;
  }

  void run(const Turn& turn) {
    const Visit& here = place(turn.micro_batch, turn.position);
    const int towards = turn.forward ? 1 : -1;
    int& last = ends_[at(here.pipeline)].last[at(here.stage)].front();
    int received = no_index;
    if (exists(turn.micro_batch, turn.position - towards)) {
      received = arrived_[at(turn.micro_batch)];
      if (recodes_ && is_compressed(turn, turn.position - towards, turn.position)) {
        last = recode(turn, turn.position - towards, turn.forward ? 0 : 1, std::array{last, received});
        received = no_index;
      }
    }
    last = builder_.compute(stage(here).devices.front(),
                            turn.forward ? load(here).forward_s : load(here).backward_s,
                            std::array{last, received}, label(computation(turn), turn));
    int sent = last;
    if (exists(turn.micro_batch, turn.position + towards)) {
      if (recodes_ && is_compressed(turn, turn.position, turn.position + towards))
        last = recode(turn, turn.position + towards, turn.forward ? 2 : 3, std::array{last});
      sent = arrived_[at(turn.micro_batch)] = send(turn, turn.position + towards, last);
    }
    if (turn.forward) return;
    const auto [begin, end] = stage(here).layers;
    for (int layer = begin; layer < end; ++layer)
      ends_[at(here.pipeline)].gradients[at(layer)].front() = sent;
  }

  static Activity computation(const Turn& turn) {
    return turn.forward ? Activity::forward : Activity::backward;
  }

  int device(const Turn& turn, int position) const {
    return stage(place(turn.micro_batch, position)).devices.front();
  }
  /// Of a message from one position on the path to another.
  bool is_compressed(const Turn& turn, int from, int to) const {
    return model_.is_compressed(device(turn, from), device(turn, to));
  }

  /// Of the message between here and a neighbour on the path, uncompressed: the output of whichever is
  /// computed first.
  double bytes(const Turn& turn, int neighbour) const {
    return load(place(turn.micro_batch, std::min(turn.position, neighbour))).output_bytes;
  }

  int send(const Turn& turn, int to, int after) {
    const Activity activity = turn.forward ? Activity::send_activations : Activity::send_gradients;
    const int from = device(turn, turn.position), receiver = device(turn, to);
    const double whole = bytes(turn, to);
    const double sent = is_compressed(turn, turn.position, to) ? model_.compressed_activations(whole) : whole;
    return builder_.send(builder_.channel(from, receiver, activity), sent, std::array{after},
                         label(activity, turn));
  }

  /// As in pipelines: 0 and 1 expand, 2 and 3 compress, forward and backward.
  int recode(const Turn& turn, int neighbour, int which, std::span<const int> after) {
    TaskLabel of = label(Activity::compress, turn);
    of.phase = which;
    return builder_.compute(device(turn, turn.position), model_.activation_recode_s(bytes(turn, neighbour)),
                            after, of);
  }

  GraphBuilder& builder_;
  const LoadModel& model_;
  const Plan& plan_;
  const PathSchedule& paths_;
  const bool recodes_;                         // takes compressing messages time?
  std::vector<std::vector<StageLoad>> loads_;  // [pipeline][stage]
  std::vector<std::size_t> turns_;             // that each micro-batch has had
  std::vector<int> arrived_;                   // of each, its last message
  std::vector<PipelineEnds> ends_;
};

}  // namespace

std::vector<PipelineEnds> add_paths(GraphBuilder& builder, const LoadModel& model, const Plan& plan,
                                    const PathSchedule& paths) {
  return PathGraph(builder, model, plan, paths).build();
}

}  // namespace dtfm::sim
