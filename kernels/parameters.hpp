// The parameters of a layer with the state that a trainer keeps for them, each kind in one array so that one
// kernel updates all.
#pragma once

#include <vector>

#include "kernels/adam.hpp"
#include "kernels/fill.hpp"
#include "kernels/platform/device.hpp"

namespace dtfm::kernels {

/// Weights are T, gradients G; master weights and the two moments are float.
template <class T, class G = T>
class Parameters {
 public:
  /// Adds a tensor of `size` numbers, which allocate() fills with random values, and returns its index.
  int add(std::size_t size, float mean, float deviation) {
    tensors_.push_back({total_, size, mean, deviation});
    constexpr std::size_t alignment = 64;  // in numbers: at least 128 bytes
    total_ += (size + alignment - 1) / alignment * alignment;
    return static_cast<int>(tensors_.size()) - 1;
  }

  void allocate(std::uint64_t seed) {
    weights_ = DeviceArray<T>(total_);
    gradients_ = DeviceArray<G>(total_);
    for (auto* state : {&master_, &first_moment_, &second_moment_}) *state = DeviceArray<float>(total_);
    device_zero(weights_.data(), weights_.bytes());
    for (auto* state : {&master_, &first_moment_, &second_moment_})
      device_zero(state->data(), state->bytes());
    zero_gradients();
    for (const Tensor& t : tensors_) {
      const auto size = static_cast<std::int64_t>(t.size);
      fill_random(weights_.data() + t.offset, size, seed + t.offset, t.mean, t.deviation);
      fill_random(master_.data() + t.offset, size, seed + t.offset, t.mean, t.deviation);
    }
  }

  T* weight(int tensor) const { return weights_.data() + of(tensor).offset; }
  G* gradient(int tensor) const { return gradients_.data() + of(tensor).offset; }
  std::size_t size(int tensor) const { return of(tensor).size; }
  void zero_gradients() const { device_zero(gradients_.data(), gradients_.bytes()); }

  void update(const AdamStep& step) const {
    adam<T, G>(static_cast<std::int64_t>(total_), step, gradients_.data(), master_.data(),
               first_moment_.data(), second_moment_.data(), weights_.data());
  }

  std::size_t bytes() const {
    return weights_.bytes() + gradients_.bytes() + master_.bytes() + first_moment_.bytes() +
           second_moment_.bytes();
  }

 private:
  struct Tensor {
    std::size_t offset, size;
    float mean, deviation;
  };
  const Tensor& of(int tensor) const { return tensors_[static_cast<std::size_t>(tensor)]; }

  std::vector<Tensor> tensors_;
  std::size_t total_ = 0;
  DeviceArray<T> weights_;
  DeviceArray<G> gradients_;
  DeviceArray<float> master_, first_moment_, second_moment_;
};

}  // namespace dtfm::kernels
