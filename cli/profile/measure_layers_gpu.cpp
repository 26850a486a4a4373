#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/profile/measure_layers.hpp"
#include "kernels/platform/device.hpp"
#include "kernels/profile.hpp"
#include "core/base/error.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/model/model_features.hpp"

namespace dtfm::cli {
namespace {

/// The kernels' number format of a precision; nullopt if there are no kernels for it.
std::optional<kernels::DType> number_type(Precision precision) {
  switch (precision) {
    case Precision::fp16:
      return kernels::DType::f16;
    case Precision::bf16:
      return kernels::DType::bf16;
    case Precision::fp32:
      return kernels::DType::f32;
    case Precision::tf32:
      break;
  }
  return std::nullopt;
}

kernels::DType require_number_type(Precision precision) {
  if (const auto type = number_type(precision)) return *type;
  std::vector<std::string_view> measurable;
  for (const PrecisionTraits& it : precision_table())
    if (number_type(it.kind)) measurable.push_back(it.name);
  throw Error("--precision", fmt::format("layers cannot be measured in {}, only in {}", name_of(precision),
                                         fmt::join(measurable, ", ")));
}

/// Layer shape for a micro-batch of one sequence on one device. Throws Error for a model without kernels.
kernels::TransformerShape shape_of(const Job& job) {
  const auto* model = std::get_if<Transformer>(&job.model);
  const auto refuse = [&](const std::string& what) {
    return Error("job " + job.name,
                 fmt::format("its layers cannot be measured: there are no kernels for {}", what));
  };
  if (!model) throw refuse("anything but transformers");
  if (model->encoder) throw refuse("encoders");
  if (model->qk_norm != QkNorm::none) throw refuse("norms of queries and keys");
  if (const auto beyond = beyond_plain_blocks(*model); !beyond.empty()) throw refuse(std::string(beyond));
  const bool is_rms = model->norm == Norm::rms;
  if (is_rms == model->biases.mlp) throw refuse("layer norm without biases, or RMS norm with biases");
  kernels::TransformerShape shape;
  shape.sequence = model->sequence;
  shape.hidden = model->hidden;
  shape.heads = model->heads;
  shape.kv_heads = kv_head_count(*model);
  shape.head_size = model->head_dim;
  shape.ffn = mlp_width(*model);
  shape.vocabulary = model->vocabulary;
  shape.gated = model->gated;
  shape.rms = is_rms;
  shape.rotary = !model->learned_positions;
  shape.dtype = require_number_type(job.training.precision);
  return shape;
}

std::string gpu_of(const MeasureRequest& request, const kernels::DeviceIdentity& device) {
  if (request.gpu) return *request.gpu;
  return find_in_catalogue(request.catalogue, device.name, Bytes(static_cast<double>(device.memory_bytes)))
      .name;
}

}  // namespace

LayerProfile measure_layers(const MeasureRequest& request) {
  if (!kernels::device_available())
    throw Error("", fmt::format("nothing can be measured: this machine has no GPU, or no driver for it; {}",
                                no_gpu_advice));
  const kernels::TransformerShape shape = shape_of(request.job);
  std::string text;
  try {
    kernels::ProfileRequest wanted{gpu_of(request, kernels::device_identity()), request.job.name, shape,
                                   request.micro_batches, request.tensors};
    if (request.on_progress)
      wanted.on_progress = [&](double share, const std::string& what) {
        request.on_progress({.share = share, .what = what});
      };
    text = kernels::measured_profile(wanted);
  } catch (const kernels::DeviceError& error) {
    throw Error("", error.what());
  }
  LayerProfile profile = io::parse_profile(std::move(text), "what was measured");
  // The job knows more about the model than the kernels do, such as whether embedding and head are tied.
  profile.shape = std::get<Transformer>(request.job.model);
  profile.shape->layers = 0;              // as in a profile that is read from a file
  profile.shape->flash_attention = true;  // the kernels do not store attention scores
  return profile;
}

}  // namespace dtfm::cli
