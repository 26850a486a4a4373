// Rotating sets of buffers filled with random numbers.
#pragma once

#include <vector>

#include "kernels/fill.hpp"
#include "kernels/platform/device.hpp"
#include "kernels/timing.hpp"

namespace dtfm::kernels {

/// Up to `count` copies of an array of `size` numbers; run i uses copy i modulo their number.
template <class T>
class Rotating {
 public:
  Rotating(std::int64_t size, int count, float mean = 0, float deviation = 1) {
    for (int i = 0; i < count; ++i) {
      if (i > 0 && !has_room(static_cast<std::size_t>(size) * sizeof(T))) break;
      copies_.emplace_back(static_cast<std::size_t>(size));
      if constexpr (std::is_same_v<T, int>)
        fill_random_integers(copies_.back().data(), size, static_cast<std::uint64_t>(i),
                             static_cast<int>(deviation));
      else
        fill_random(copies_.back().data(), size, static_cast<std::uint64_t>(i), mean, deviation);
    }
  }
  T* operator[](int run) const { return copies_[static_cast<std::size_t>(run) % copies_.size()].data(); }

 private:
  std::vector<DeviceArray<T>> copies_;
};

inline Times time_of(int runs, const std::function<void(int)>& work) {
  constexpr double warm_up_share = 0.2;  // single kernels take less power than layers
  return time_steps({runs, device_limits().settling_seconds * warm_up_share}, {work}).front();
}

/// Times a kernel that takes as much power as layers do.
inline Times time_settled(int runs, const std::function<void(int)>& work) {
  const double settling = device_limits().settling_seconds;
  return time_steps({runs, settling / 2, settling}, {work}).front();
}

}  // namespace dtfm::kernels
