// What compressing gradients takes the devices that compute: they serve what is to be computed, compressed
// and expanded one after the other, as it comes.
#include <algorithm>
#include <utility>

#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Of the parts of a segment that go compressed: the most that a device of each stage holds.
void IterationTimer::count_compressed(Segment& segment) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const int degree = static_cast<int>(devices_of(static_cast<int>(i), segment.stage[i]).size());
    std::vector<int> held(at(degree));
    for (int part = 0; part < segment.parts; ++part)
      if (part_compressed_[at(part)]) ++held[at(rank_of_part(part, segment.parts, degree))];
    segment.compress_s[i] = segment.recode_s * *std::max_element(held.begin(), held.end());
  }
}

void IterationTimer::reset_recoders(Lane& lane, std::size_t stages) {
  lane.recoders.resize(stages);
  for (Recoder& it : lane.recoders) {
    it.busy_s = it.waiting_s = it.put_off_s = 0;
    it.to_expand.clear();
  }
}

IterationTimer::Recoder& IterationTimer::recoder_of(int pipeline, int computed_stage) {
  std::vector<Recoder>& recoders = lanes_[at(pipeline)].recoders;
  return recoders[at(computed_stage) % recoders.size()];
}

/// When the messages of an exchange can begin, as far as a pipeline is concerned.
double IterationTimer::compressed_s(int pipeline, std::size_t number) {
  Segment& segment = segments_[number];
  Recoder& recoder = recoder_of(pipeline, segment.stage[at(pipeline)]);
  const double end_s = model_.problem.job.parallelism.overlap ? compressed_in_backward_s(pipeline, segment)
                                                              : compressed_after_s(pipeline, segment);
  if (segment.recode_s > 0) recoder.to_expand.push_back(number);
  return end_s;
}

/// After the ones before. What the device has yet to compute comes later by as much.
double IterationTimer::compressed_after_s(int pipeline, const Segment& segment) {
  const int stage = segment.stage[at(pipeline)];
  Recoder& recoder = recoder_of(pipeline, stage);
  const double ready = ready_s(pipeline, stage, segment.layers.first);
  const double expanded_s = expand_before(pipeline, stage, ready), own_s = segment.compress_s[at(pipeline)];
  recoder.put_off_s += expanded_s + own_s;
  if (own_s == 0) return ready;
  recoder.busy_s = std::max(recoder.busy_s, ready + expanded_s) + own_s;
  return recoder.busy_s;
}

/// With overlap. When a layer is computed, the device first serves what has come before that: the gradients
/// of the layer computed before, and those that have been exchanged. Then it computes the next layer, then it
/// compresses this one's, for which it has the time, too, in which several devices exchange activations.
double IterationTimer::compressed_in_backward_s(int pipeline, const Segment& segment) {
  Lane& lane = lanes_[at(pipeline)];
  const int stage = segment.stage[at(pipeline)], layer = segment.layers.first;
  double& late_s = lane.late_s[at(stage)];
  Recoder& recoder = recoder_of(pipeline, stage);
  const double own_s = segment.compress_s[at(pipeline)], done_s = ready_s(pipeline, stage, layer);
  const double first_s =
      std::max(0.0, std::exchange(recoder.waiting_s, 0) + expand_before(pipeline, stage, done_s));
  double begin_s = 0;
  if (layer > lane.layers[at(stage)].first) {
    late_s += first_s;
    const double idle_s = all_reduce_s(devices_of(pipeline, stage), {layer - 1, layer}, true);
    begin_s = ready_s(pipeline, stage, layer - 1) - idle_s;
    recoder.waiting_s = own_s - idle_s;
  } else {
    const double sent_s = lane.compressing_sent_s[at(stage)];
    if (sent_s > 0) late_s += first_s;
    begin_s = done_s + first_s + sent_s;
    recoder.put_off_s = late_s + (sent_s > 0 ? 0 : first_s) + own_s;
  }
  if (own_s == 0) return done_s;
  recoder.busy_s = begin_s + own_s;
  return recoder.busy_s;
}

/// Seconds by which the computations of a stage come later because its devices compress and expand.
double IterationTimer::put_off_s(int pipeline, int stage) {
  return model_.chunks > 1 && model_.stages.recodes_gradients() ? recoder_of(pipeline, stage).put_off_s : 0;
}

/// What has been exchanged before `now_s`: the seconds that this takes.
double IterationTimer::expand_before(int pipeline, int stage, double now_s) {
  std::vector<std::size_t>& waiting = recoder_of(pipeline, stage).to_expand;
  double seconds = 0;
  const auto is_expanded = [&](std::size_t number) {
    Segment& segment = segments_[number];
    if (exchanged_s(segment, pipeline) >= now_s) return false;
    seconds += segment.compress_s[at(pipeline)];
    segment.expanded_s[at(pipeline)] = now_s + seconds;
    return true;
  };
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), is_expanded), waiting.end());
  return seconds;
}

/// What is exchanged when nothing is left to be computed and compressed.
void IterationTimer::expand_the_rest() {
  for (int i = 0; i < static_cast<int>(lanes_.size()); ++i)
    for (std::size_t stage = 0; stage < lanes_[at(i)].recoders.size(); ++stage) {
      Recoder& recoder = lanes_[at(i)].recoders[stage];
      std::vector<std::size_t>& rest = recoder.to_expand;
      std::stable_sort(rest.begin(), rest.end(), [&](std::size_t a, std::size_t b) {
        return exchanged_s(segments_[a], i) < exchanged_s(segments_[b], i);
      });
      double busy_s = recoder.busy_s;
      for (const std::size_t number : rest) {
        Segment& segment = segments_[number];
        // Where it holds several parts, the others have come before the last.
        busy_s = std::max(busy_s + segment.compress_s[at(i)], exchanged_s(segment, i) + segment.recode_s);
        segment.expanded_s[at(i)] = busy_s;
      }
    }
}

}  // namespace dtfm::cost
