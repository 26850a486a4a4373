#include <algorithm>

#include <fmt/format.h>

#include "cli/measure_layers.hpp"
#include "kernels/device.hpp"
#include "kernels/measure.hpp"
#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/io/suggest.hpp"

namespace dtfm {
namespace {

constexpr int runs = 30;  // three of them above the 90th percentile

constexpr kernels::LayerKind kinds[] = {kernels::LayerKind::embedding, kernels::LayerKind::block,
                                        kernels::LayerKind::head};
constexpr const char* kind_names[] = {"embedding", "block", "head"};

kernels::DType number_type(const std::string& precision) {
  if (precision == "fp16") return kernels::DType::f16;
  if (precision == "bf16") return kernels::DType::bf16;
  if (precision == "fp32") return kernels::DType::f32;
  throw Error("--precision",
              fmt::format("layers can be measured in fp16, bf16 or fp32, not in {}", precision));
}

/// Of a micro-batch of one sequence on one device. Throws Error for a model that the kernels do not have.
kernels::TransformerShape shape_of(const Job& job) {
  const auto* model = std::get_if<Transformer>(&job.model);
  const auto refuse = [&](const char* what) {
    return Error("job " + job.name,
                 fmt::format("its layers cannot be measured: there are no kernels for {}", what));
  };
  if (!model) throw refuse("anything but transformers");
  if (model->encoder) throw refuse("encoders");
  if (model->rms_norm == model->biases) throw refuse("layer norm without biases, or RMS norm with biases");
  kernels::TransformerShape shape;
  shape.sequence = model->sequence;
  shape.hidden = model->hidden;
  shape.heads = model->heads;
  shape.kv_heads = model->kv_heads > 0 ? model->kv_heads : model->heads;
  shape.ffn = model->feed_forward > 0 ? model->feed_forward : 4 * model->hidden;
  shape.vocabulary = model->vocabulary;
  shape.gated = model->gated;
  shape.rms = model->rms_norm;
  shape.rotary = !model->learned_positions;
  shape.dtype = number_type(job.training.precision);
  return shape;
}

/// The kernels' spreads are shares of the median.
Timing timing(double median_s, double spread) {
  return {median_s, median_s * spread};
}

ProfileRow row_of(const kernels::LayerTimes& times) {
  return {kind_names[static_cast<int>(times.kind)],
          times.micro_batch,
          times.tensor_parallel,
          timing(times.forward_s, times.forward_spread),
          timing(times.backward_s, times.backward_spread),
          timing(times.update_s, times.update_spread),
          static_cast<double>(times.activation_bytes),
          static_cast<double>(times.peak_bytes)};
}

std::string gpu_of(const MeasureRequest& request, const kernels::DeviceIdentity& device) {
  if (request.gpu) return *request.gpu;
  if (const Gpu* gpu = catalogued(request.catalogue, device.name)) return gpu->name;
  throw Error("--gpu", fmt::format("is missing: {} is not in the catalogue, say what profiles shall call it",
                                   in_quotes(device.name)));
}

std::string derivation_of(const std::string& device, std::span<const kernels::DeviceState> states) {
  const std::string text = fmt::format(
      "medians of {} runs on one {}, by the device's clock after warm-up, with layers in rotation; matrix "
      "products by the vendor's library, attention without the matrix of scores, Adam with fp32 states",
      runs, in_quotes(device));
  const std::string conditions = kernels::text_of(states);
  return conditions.empty() ? text : fmt::format("{}; while it worked: {}", text, conditions);
}

LayerProfile empty_profile(const MeasureRequest& request, const kernels::DeviceIdentity& device) {
  LayerProfile profile;
  profile.gpu = gpu_of(request, device);
  profile.source = LayerProfile::Source::measured;
  profile.precision = request.job.training.precision;
  profile.model = request.job.name;
  profile.shape = std::get<Transformer>(request.job.model);
  profile.shape->layers = 0;              // as it is read
  profile.shape->flash_attention = true;  // the kernels keep no scores
  const int version = device.cuda_runtime_version;
  if (version > 0)
    profile.software.emplace_back("cuda", fmt::format("{}.{}", version / 1000, version % 1000 / 10));
  if (!device.driver_version.empty()) profile.software.emplace_back("driver", device.driver_version);
  return profile;
}

/// The rows of one kind at every size, one after the other.
class Measuring {
 public:
  Measuring(const MeasureRequest& request, kernels::TransformerShape shape)
      : request_(request),
        shape_(shape),
        device_(kernels::device_identity()),
        profile_(empty_profile(request, device_)) {}

  LayerProfile run() {
    const auto sizes = request_.tensors.size() * request_.micro_batches.size() * std::size(kinds);
    for (const kernels::LayerKind kind : kinds)
      for (const int tensor : request_.tensors)
        for (const int micro_batch : request_.micro_batches) {
          const double share = static_cast<double>(profile_.rows.size()) / static_cast<double>(sizes);
          measure(kind, tensor, micro_batch, share);
        }
    profile_.derivation = derivation_of(device_.name, states_);
    return std::move(profile_);
  }

 private:
  void measure(kernels::LayerKind kind, int tensor, int micro_batch, double share) {
    const std::string what = fmt::format("{} at micro-batch {} and tensor degree {}",
                                         kind_names[static_cast<int>(kind)], micro_batch, tensor);
    request_.on_progress(share, what);
    shape_.batch = micro_batch;
    shape_.tensor_parallel = tensor;
    const kernels::Measurement got = kernels::measure(shape_, std::span(&kind, 1), runs);
    if (!got.error.empty()) throw Error("", fmt::format("layer {} cannot be measured: {}", what, got.error));
    profile_.rows.push_back(row_of(got.rows.front()));
    states_.push_back(got.rows.front().state);
  }

  const MeasureRequest& request_;
  kernels::TransformerShape shape_;
  kernels::DeviceIdentity device_;
  std::vector<kernels::DeviceState> states_;
  LayerProfile profile_;
};

}  // namespace

LayerProfile measured_layers(const MeasureRequest& request) {
  if (!kernels::device_available())
    throw Error("", fmt::format("nothing can be measured, for there is no GPU here, or no driver for it: {}",
                                without_gpu));
  try {
    return Measuring(request, shape_of(request.job)).run();
  } catch (const kernels::DeviceError& error) {
    throw Error("", fmt::format("the GPU refused: {}", error.what()));
  }
}

}  // namespace dtfm
