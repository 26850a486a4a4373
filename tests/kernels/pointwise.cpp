// Compares activations, rotary embedding, biases, residuals and embeddings with the reference.
#include "kernels/pointwise.hpp"

#include "kernels/embedding.hpp"
#include "tests/kernels/reference.hpp"

namespace dtfm::kernels {
namespace {

/// Checks slope ≈ (f(x + h) − f(x − h)) / 2h at random points.
template <class F, class G>
void check_slope(Checks& checks, const std::string& what, F f, G slope) {
  Numbers got, expected;
  for (const double x : random_numbers(50, 1, 2)) {
    got.push_back(slope(x));
    expected.push_back((f(x + 1e-5) - f(x - 1e-5)) / 2e-5);
  }
  checks.near("reference slope of " + what, got, expected, 1e-8);
}

template <class T>
void check_activations(Checks& checks, int rows, int columns) {
  const auto size = count(rows, columns);
  const Numbers x = rounded<T>(random_numbers(size, 1)),
                bias = rounded<T>(random_numbers(count(columns, 1), 2)),
                dy = rounded<T>(random_numbers(size, 3)), gate_up = rounded<T>(random_numbers(2 * size, 4)),
                gate_bias = rounded<T>(random_numbers(count(2, columns), 11));
  const auto x_device = on_device<T>(x), bias_device = on_device<T>(bias), dy_device = on_device<T>(dy);
  const auto gate_up_device = on_device<T>(gate_up), gate_bias_device = on_device<T>(gate_bias);
  const DeviceArray<T> y(size);
  Numbers expected = reference::with_bias(x, bias), slope = expected;

  add_residual<T>(rows, columns, x_device.data(), dy_device.data(), bias_device.data(), y.data());
  checks.near("residual", y, reference::sum(expected, dy));
  add_residual<T>(rows, columns, x_device.data(), dy_device.data(), nullptr, y.data());
  checks.near("residual without bias", y, reference::sum(x, dy));

  for (std::size_t i = 0; i < size; ++i) {
    slope[i] = reference::gelu_slope(expected[i]) * dy[i];
    expected[i] = reference::gelu(expected[i]);
  }
  gelu_forward<T>(rows, columns, x_device.data(), bias_device.data(), y.data());
  checks.near("gelu", y, expected);
  gelu_backward<T>(rows, columns, x_device.data(), bias_device.data(), dy_device.data(), y.data());
  checks.near("gelu dx", y, slope);

  Numbers gated(size), dgated(2 * size);
  const Numbers pre = reference::with_bias(gate_up, gate_bias);
  const auto width = count(columns, 1);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t g = 2 * (i / width * width) + i % width, u = g + width;
    gated[i] = reference::silu(pre[g]) * pre[u];
    dgated[g] = dy[i] * pre[u] * reference::silu_slope(pre[g]);
    dgated[u] = dy[i] * reference::silu(pre[g]);
  }
  gated_silu_forward<T>(rows, columns, gate_up_device.data(), gate_bias_device.data(), y.data());
  checks.near("gated silu", y, gated);
  gated_silu_backward<T>(rows, columns, gate_up_device.data(), gate_bias_device.data(), dy_device.data(),
                         gate_up_device.data());  // in place
  checks.near("gated silu dx", gate_up_device, dgated);
}

template <class T>
void check_rotary(Checks& checks, int sequence, int heads, int turned, int head_size) {
  const int rows = 2 * sequence, columns = heads * head_size;
  const Numbers x = rounded<T>(random_numbers(count(rows, columns), 5)),
                bias = rounded<T>(random_numbers(count(columns, 1), 6));
  const auto x_device = on_device<T>(x), bias_device = on_device<T>(bias);
  bias_rotary<T>(rows, columns, sequence, head_size, turned, false, bias_device.data(), x_device.data());
  const Numbers expected =
      reference::rotated(reference::with_bias(x, bias), columns, sequence, head_size, turned);
  checks.near("rotary", x_device, expected);
  bias_rotary<T>(rows, columns, sequence, head_size, turned, true, nullptr, x_device.data());
  checks.near("rotary and back", x_device, reference::with_bias(x, bias));
}

template <class T>
void check_embedding(Checks& checks, int batch, int sequence, int columns, int tokens) {
  const int rows = batch * sequence;
  const auto width = count(columns, 1);
  const Numbers table = rounded<T>(random_numbers(count(tokens, columns), 7)),
                positions = rounded<T>(random_numbers(count(sequence, columns), 8)),
                dy = rounded<T>(random_numbers(count(rows, columns), 9));
  // fewer tokens than rows, so that some are repeated
  const std::vector<int> ids = random_integers(count(rows, 1), tokens, 10);
  const DeviceArray<int> ids_device(ids);
  const auto table_device = on_device<T>(table), positions_device = on_device<T>(positions),
             dy_device = on_device<T>(dy);
  const DeviceArray<T> y(dy.size());
  Numbers expected(dy.size()), dtable(table.size(), 0.25), dpositions(positions.size());
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t token = static_cast<std::size_t>(ids[i / width]) * width + i % width;
    const std::size_t position = i % positions.size();
    expected[i] = table[token] + positions[position];
    dtable[token] += dy[i];
    dpositions[position] += dy[i];
  }
  embedding_forward<T>(rows, columns, sequence, ids_device.data(), table_device.data(),
                       positions_device.data(), y.data());
  checks.near("embedding", y, expected);
  const auto dtable_device = on_device<float>(Numbers(table.size(), 0.25));
  const DeviceArray<float> dpositions_device(positions.size());
  embedding_backward<T>(rows, columns, sequence, ids_device.data(), dy_device.data(), dtable_device.data(),
                        dpositions_device.data(), false);
  checks.near("token gradient", dtable_device, dtable);
  checks.near("position gradient", dpositions_device, dpositions);
  embedding_backward<T>(rows, columns, sequence, ids_device.data(), dy_device.data(), dtable_device.data(),
                        dpositions_device.data(), true);
  checks.near("position gradient, accumulated", dpositions_device, reference::sum(dpositions, dpositions));
}

}  // namespace
}  // namespace dtfm::kernels

int main() {
  using namespace dtfm::kernels;
  return run_checks([](Checks& checks) {
    check_slope(checks, "gelu", reference::gelu, reference::gelu_slope);
    check_slope(checks, "silu", reference::silu, reference::silu_slope);
    for_each_format([&]<class T>(T) {
      check_activations<T>(checks, 7, 40);
      check_activations<T>(checks, emulated ? 5 : 1000, emulated ? 1032 : 11008);
      check_rotary<T>(checks, 5, 7, 5, 64);
      // The error of an angle in float is half its last bit: 1e-6 at position 100, more beyond.
      check_rotary<T>(checks, emulated || sizeof(T) == 4 ? 70 : 2048, 6, 6, 128);
      check_rotary<T>(checks, 3, 6, 0, 64);  // biases only
      check_embedding<T>(checks, 3, 5, 24, 7);
      check_embedding<T>(checks, 6, 5, 24, 7);  // more sequences than a thread handles
      check_embedding<T>(checks, 1, 7, 24, 7);
      check_embedding<T>(checks, 2, emulated ? 30 : 2048, emulated ? 72 : 4096, emulated ? 50 : 5000);
    });
  });
}
