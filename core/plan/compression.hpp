// Compression of what a job sends: ratio, time, memory, and the links it applies to.
#pragma once

#include <span>

#include "core/plan/compression_preset.hpp"
#include "core/plan/job.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm {

/// The effect on activations and their gradients, which cross stage boundaries. Throws Error if the method is
/// for gradients of parameters only.
CompressionEffect activation_compression(const CompressionPreset& preset, const Training& training,
                                         const Model& model);
/// The effect on the gradients of parameters. Throws Error if it would not reduce them, or is unknown.
///
/// Gradients are compressed once before they are synchronized and decompressed once after it, and every
/// message in between has this ratio: a sum of several replicas' largest values is cut to the same share
/// again (gTop-k: Shi et al., arXiv 1901.04359), and quantized values are quantized again at no cost.
CompressionEffect gradient_compression(const CompressionPreset& preset, const Training& training,
                                       const Model& model);

/// Sets the preset and its ratio in the job, whose training and model must be known. Throws Error as above.
void compress_activations(Job& job, const CompressionPreset& preset);
void compress_gradients(Job& job, const CompressionPreset& preset);

/// Seconds that a device takes to compress one byte, and again to decompress it, per byte uncompressed: by
/// its throughput if given, else the memory traffic of the preset at the memory bandwidth of the
/// slowest device, which the pipeline waits for. 0 if nothing is compressed or no cost is known. Throws Error
/// if the memory bandwidth of a device is unknown.
double activation_compression_s_per_byte(const Topology& topology, const Job& job,
                                         const Compression& compression);
double gradient_compression_s_per_byte(const Topology& topology, const Job& job,
                                       const Compression& compression);

/// Whether messages from one device to another are compressed: never those that stay on a device and, if the
/// compression has a bandwidth threshold, only those over slower links, by Topology::uncontended_bandwidth
/// (per-link compression as in Tang et al., arXiv 2410.12707).
bool is_compressed(const Topology& topology, const Compression& compression, int from, int to);
/// Whether gradients synchronized among these devices are compressed: if any of the devices has such a link
/// to another one, because all messages have the same size.
bool is_compressed(const Topology& topology, const Compression& compression, std::span<const int> devices);

/// Bytes per parameter of error feedback: what was not sent and is added to the next gradients. 0 if the
/// method keeps nothing.
double error_feedback_bytes(const Training& training, const Compression& compression);

}  // namespace dtfm
