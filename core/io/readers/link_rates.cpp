#include "core/io/readers/link_rates.hpp"

#include <algorithm>

namespace dtfm::io {

std::optional<LinkTime> fit_link_time(std::span<const MeasuredRate> rates) {
  constexpr double min_growth = 1e-6;  // of the time over all sizes: less is rounding
  double weights = 0, size_sum = 0, time_sum = 0, largest = 0;
  const auto time_of = [](const MeasuredRate& it) { return (it.size / it.rate).value(); };
  const auto weight_of = [&](const MeasuredRate& it) { return 1 / (time_of(it) * time_of(it)); };
  for (const MeasuredRate& it : rates) {
    weights += weight_of(it);
    size_sum += weight_of(it) * it.size.value();
    time_sum += weight_of(it) * time_of(it);
    largest = std::max(largest, it.size.value());
  }
  const double mean_size = size_sum / weights, mean_time = time_sum / weights;
  double products = 0, squares = 0, products_at_0 = 0, squares_at_0 = 0;
  for (const MeasuredRate& it : rates) {
    const double size = it.size.value() - mean_size;
    products += weight_of(it) * size * (time_of(it) - mean_time);
    squares += weight_of(it) * size * size;
    products_at_0 += it.size.value() / time_of(it);
    squares_at_0 += weight_of(it) * it.size.value() * it.size.value();
  }
  double s_per_byte = products / squares, latency = mean_time - s_per_byte * mean_size;
  if (latency < 0) {
    latency = 0;
    s_per_byte = products_at_0 / squares_at_0;
  }
  if (!(s_per_byte * largest > min_growth * mean_time)) return std::nullopt;
  return LinkTime{Seconds(latency), BitsPerSecond(bits_per_byte / s_per_byte)};
}

}  // namespace dtfm::io
