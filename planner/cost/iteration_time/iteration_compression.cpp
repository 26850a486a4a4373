// What compressing gradients takes the devices that compute: they serve what is to be computed, compressed
// and expanded one after the other, as it comes.
#include <algorithm>
#include <utility>

#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Of the parts of a segment that go compressed: the most that a device of each stage holds.
void IterationTimer::count_compressed(GradientBucket& bucket) {
  for (std::size_t i = 0; i < pipeline_states_.size(); ++i) {
    const int degree = static_cast<int>(devices_of(static_cast<int>(i), bucket.stage[i]).size());
    std::vector<int> held(at(degree));
    for (int part = 0; part < bucket.parts; ++part)
      if (part_compressed_[at(part)]) ++held[at(rank_of_part(part, bucket.parts, degree))];
    bucket.compress_s[i] = bucket.compression_s * *std::max_element(held.begin(), held.end());
  }
}

void IterationTimer::reset_codecs(PipelineState& pipeline_state, std::size_t stages) {
  pipeline_state.codecs.resize(stages);
  for (Codec& it : pipeline_state.codecs) {
    it.busy_s = it.waiting_s = it.deferred_s = 0;
    it.to_decompress.clear();
  }
}

IterationTimer::Codec& IterationTimer::codec_of(int pipeline, int computed_stage) {
  std::vector<Codec>& codecs = pipeline_states_[at(pipeline)].codecs;
  return codecs[at(computed_stage) % codecs.size()];
}

/// When the messages of an exchange can begin, as far as a pipeline is concerned.
double IterationTimer::compressed_s(int pipeline, std::size_t number) {
  GradientBucket& bucket = buckets_[number];
  Codec& codec = codec_of(pipeline, bucket.stage[at(pipeline)]);
  const double end_s = model_.problem.job.parallelism.overlap ? compressed_in_backward_s(pipeline, bucket)
                                                              : compressed_after_s(pipeline, bucket);
  if (bucket.compression_s > 0) codec.to_decompress.push_back(number);
  return end_s;
}

/// After the ones before. What the device has yet to compute comes later by as much.
double IterationTimer::compressed_after_s(int pipeline, const GradientBucket& bucket) {
  const int stage = bucket.stage[at(pipeline)];
  Codec& codec = codec_of(pipeline, stage);
  const double ready = ready_s(pipeline, stage, bucket.layers.first);
  const double decompressed_s = decompress_before(pipeline, stage, ready),
               own_s = bucket.compress_s[at(pipeline)];
  codec.deferred_s += decompressed_s + own_s;
  if (own_s == 0) return ready;
  codec.busy_s = std::max(codec.busy_s, ready + decompressed_s) + own_s;
  return codec.busy_s;
}

/// With overlap. When a layer is computed, the device first serves what has come before that: the gradients
/// of the layer computed before, and those that have been exchanged. Then it computes the next layer, then it
/// compresses this one's, for which it has the time, too, in which several devices exchange activations.
double IterationTimer::compressed_in_backward_s(int pipeline, const GradientBucket& bucket) {
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  const int stage = bucket.stage[at(pipeline)], layer = bucket.layers.first;
  double& sync_delays_s = pipeline_state.sync_delays_s[at(stage)];
  Codec& codec = codec_of(pipeline, stage);
  const double own_s = bucket.compress_s[at(pipeline)], done_s = ready_s(pipeline, stage, layer);
  const double first_s =
      std::max(0.0, std::exchange(codec.waiting_s, 0) + decompress_before(pipeline, stage, done_s));
  double begin_s = 0;
  if (layer > pipeline_state.layers[at(stage)].first) {
    sync_delays_s += first_s;
    const double idle_s = all_reduce_s(devices_of(pipeline, stage), {layer - 1, layer}, true);
    begin_s = ready_s(pipeline, stage, layer - 1) - idle_s;
    codec.waiting_s = own_s - idle_s;
  } else {
    const double sent_s = pipeline_state.compressing_sent_s[at(stage)];
    if (sent_s > 0) sync_delays_s += first_s;
    begin_s = done_s + first_s + sent_s;
    codec.deferred_s = sync_delays_s + (sent_s > 0 ? 0 : first_s) + own_s;
  }
  if (own_s == 0) return done_s;
  codec.busy_s = begin_s + own_s;
  return codec.busy_s;
}

/// Seconds by which the computations of a stage come later because its devices compress and expand.
double IterationTimer::deferred_s(int pipeline, int stage) {
  return model_.chunks > 1 && model_.stages.has_gradient_compression_time()
             ? codec_of(pipeline, stage).deferred_s
             : 0;
}

/// What has been exchanged before `now_s`: the seconds that this takes.
double IterationTimer::decompress_before(int pipeline, int stage, double now_s) {
  std::vector<std::size_t>& waiting = codec_of(pipeline, stage).to_decompress;
  double seconds = 0;
  const auto is_decompressed = [&](std::size_t number) {
    GradientBucket& bucket = buckets_[number];
    if (sync_end_s(bucket, pipeline) >= now_s) return false;
    seconds += bucket.compress_s[at(pipeline)];
    bucket.decompressed_s[at(pipeline)] = now_s + seconds;
    return true;
  };
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), is_decompressed), waiting.end());
  return seconds;
}

/// What is exchanged when nothing is left to be computed and compressed.
void IterationTimer::decompress_remaining() {
  for (int i = 0; i < static_cast<int>(pipeline_states_.size()); ++i)
    for (std::size_t stage = 0; stage < pipeline_states_[at(i)].codecs.size(); ++stage) {
      Codec& codec = pipeline_states_[at(i)].codecs[stage];
      std::vector<std::size_t>& rest = codec.to_decompress;
      std::stable_sort(rest.begin(), rest.end(), [&](std::size_t a, std::size_t b) {
        return sync_end_s(buckets_[a], i) < sync_end_s(buckets_[b], i);
      });
      double busy_s = codec.busy_s;
      for (const std::size_t number : rest) {
        GradientBucket& bucket = buckets_[number];
        // Where it holds several parts, the others have come before the last.
        busy_s = std::max(busy_s + bucket.compress_s[at(i)], sync_end_s(bucket, i) + bucket.compression_s);
        bucket.decompressed_s[at(i)] = busy_s;
      }
    }
}

}  // namespace dtfm::cost
