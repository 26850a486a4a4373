// Time that gradient compression takes on the devices that compute. A device computes layers, compresses and
// decompresses gradients one at a time, in the order in which they become ready.
#include <algorithm>
#include <utility>

#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Sets, for each pipeline, the time to compress the parts of a bucket that are sent compressed, by the
/// device that holds most of them.
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

IterationTimer::Codec& IterationTimer::codec_of(int pipeline, int virtual_stage) {
  std::vector<Codec>& codecs = pipeline_states_[at(pipeline)].codecs;
  return codecs[at(virtual_stage) % codecs.size()];
}

/// Time at which the messages of a bucket can start as far as one pipeline is concerned.
double IterationTimer::compressed_s(int pipeline, std::size_t number) {
  GradientBucket& bucket = buckets_[number];
  Codec& codec = codec_of(pipeline, bucket.stage[at(pipeline)]);
  const double end_s = model_.problem.job.execution.overlap ? compressed_in_backward_s(pipeline, bucket)
                                                            : compressed_after_s(pipeline, bucket);
  if (bucket.compression_s > 0) codec.to_decompress.push_back(number);
  return end_s;
}

/// Without overlap, a bucket is compressed after earlier ones. This delays what the device has yet to compute
/// by the same time.
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

/// With overlap, a device that has computed a layer first processes what became ready before: the gradients
/// of the previous layer, and those already synchronized. Then it computes the next layer, and only then
/// compresses the gradients of this one. For that it also has the time during which tensor-parallel devices
/// all-reduce activations.
double IterationTimer::compressed_in_backward_s(int pipeline, const GradientBucket& bucket) {
  PipelineState& pipeline_state = pipeline_states_[at(pipeline)];
  const int stage = bucket.stage[at(pipeline)], layer = bucket.layers.first;
  double& sync_delays_s = pipeline_state.sync_delays_s[at(stage)];
  Codec& codec = codec_of(pipeline, stage);
  const double own_s = bucket.compress_s[at(pipeline)], done_s = ready_s(pipeline, stage, layer);
  const double first_s =
      std::max(0.0, std::exchange(codec.waiting_s, 0) + decompress_before(pipeline, stage, done_s));
  // A split backward has all-reduced and sent before it computes weight gradients.
  const bool is_split = traits(model_.schedule).splits_backward;
  double begin_s = 0;
  if (layer > pipeline_state.layers[at(stage)].first) {
    sync_delays_s += first_s;
    const double idle_s = is_split ? 0 : all_reduce_s(devices_of(pipeline, stage), {layer - 1, layer}, true);
    begin_s = ready_s(pipeline, stage, layer - 1) - idle_s;
    codec.waiting_s = own_s - idle_s;
  } else {
    const double sent_s = is_split ? 0 : pipeline_state.compressing_sent_s[at(stage)];
    if (sent_s > 0) sync_delays_s += first_s;
    begin_s = done_s + first_s + sent_s;
    codec.deferred_s = sync_delays_s + (sent_s > 0 ? 0 : first_s) + own_s;
  }
  if (own_s == 0) return done_s;
  codec.busy_s = begin_s + own_s;
  return codec.busy_s;
}

/// Seconds by which compression and decompression delay the computations of a stage.
double IterationTimer::deferred_s(int pipeline, int stage) {
  return model_.chunks > 1 && model_.stages.has_gradient_compression_time()
             ? codec_of(pipeline, stage).deferred_s
             : 0;
}

/// Decompresses the buckets that were synchronized before `now_s`, and returns the seconds that this takes.
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

/// Decompresses the buckets that are synchronized after the device has computed and compressed everything.
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
        // If the device holds several parts, all but the last have arrived earlier.
        busy_s = std::max(busy_s + bucket.compress_s[at(i)], sync_end_s(bucket, i) + bucket.compression_s);
        bucket.decompressed_s[at(i)] = busy_s;
      }
    }
}

}  // namespace dtfm::cost
