// Ways to make smaller what is sent, by name: what is left of the bytes, and what that takes a device.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planner/core/job.hpp"
#include "planner/core/topology.hpp"

namespace dtfm {

/// `8-bit`, `4-bit`; of gradients also `top-1%` (any share) and `rank-4` (any rank).
///
/// Gradients are compressed once before their exchange and expanded once after it, and every message of it
/// has this ratio: sums of several replicas' largest are cut to the same share again (Shi et al., gTop-k,
/// arXiv 1901.04359), quantized ones are quantized again at no cost. The ratio of ranks is the mean of the
/// whole model, of matrices that are not divided by tensor parallelism.
struct CompressionPreset {
  double ratio = 1;  // bytes sent ÷ bytes uncompressed
  /// Bytes that compressing and expanding together read and write in the memory of a device ÷ bytes
  /// uncompressed.
  double traffic = 0;
};

/// Of activations and their gradients, which pass a boundary. Throws Error for a name that there is not.
CompressionPreset activation_preset(std::string_view name, const Training& training);
/// Of the gradients of parameters. Throws Error for a name that there is not, a share or rank that makes
/// nothing smaller, and ranks of models whose matrices are not known.
CompressionPreset gradient_preset(std::string_view name, const Training& training, const Model& model);

/// By the name of a preset: puts it and its ratio into the job. Throws Error as above.
void compress_activations(Job& job, const std::string& preset);
void compress_gradients(Job& job, const std::string& preset);

/// Seconds that compressing takes a device of each byte uncompressed, and expanding as long: those of the
/// job's throughput, or a preset's traffic over the memory bandwidth of the slowest device, which a chain
/// waits for; 0: nothing is compressed, or no cost is known. Throws Error where the catalogue does not know
/// the memory bandwidth.
double activation_compression_s_per_byte(const Topology& topology, const Job& job);
double gradient_compression_s_per_byte(const Topology& topology, const Job& job);

/// Is what a device sends another one compressed? Never what stays on it; and only over slow links where the
/// job says so (Tang et al., arXiv 2410.12707, compress by link): by Topology::alone.
bool is_compressed(const Topology& topology, const Compression& compression, int from, int to);
/// The same of an exchange of gradients, all of whose messages are alike: if any of its devices has such a
/// link to another one.
bool is_compressed(const Topology& topology, const Compression& compression, std::span<const int> devices);

/// What was not sent and is added to the next gradients (error feedback), bytes a parameter; 0: nothing is
/// kept.
double error_feedback_bytes(const Job& job);

}  // namespace dtfm
