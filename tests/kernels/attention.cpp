// Compares attention, forward and backward, with the reference, and the reference's gradients with finite
// differences.
#include "kernels/attention_warpgroup.hpp"

#include "tests/kernels/reference.hpp"

namespace dtfm::kernels {
namespace {

/// Returns columns first … first + width − 1 of a matrix.
Numbers columns_of(const Numbers& matrix, int columns, int first, int width) {
  Numbers part;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const int column = static_cast<int>(i % count(columns, 1));
    if (column >= first && column < first + width) part.push_back(matrix[i]);
  }
  return part;
}

std::string text(const AttentionShape& a) {
  return "attention of " + std::to_string(a.heads) + "/" + std::to_string(a.kv_heads) + " heads of " +
         std::to_string(a.head_size) + ", " + std::to_string(a.sequence) + " tokens" +
         (a.causal ? ", causal" : "");
}

/// q, k and v are adjacent in one matrix, as in a layer. shared_bytes selects the kernels and the
/// tile sizes.
template <class T>
void check_attention(Checks& checks, const AttentionShape& a, std::size_t shared_bytes = 0) {
  const int rows = a.batch * a.sequence, q_width = a.heads * a.head_size, kv_width = a.kv_heads * a.head_size,
            stride = q_width + 2 * kv_width;
  const Numbers qkv = rounded<T>(random_numbers(count(rows, stride), 1)),
                dout = rounded<T>(random_numbers(count(rows, q_width), 2));
  const auto qkv_device = on_device<T>(qkv), dout_device = on_device<T>(dout);
  const DeviceArray<T> out(dout.size()), gradient(qkv.size());
  const DeviceArray<float> log_sum_exp(count(a.batch * a.heads, a.sequence)),
      workspace(attention_workspace(a));
  AttentionForward<T> forward{a, stride};
  forward.q = qkv_device.data();
  forward.k = forward.q + q_width;
  forward.v = forward.k + kv_width;
  forward.out = out.data();
  forward.log_sum_exp = log_sum_exp.data();
  attention_forward(forward, shared_bytes);
  const auto expected =
      reference::attention(a, columns_of(qkv, stride, 0, q_width), columns_of(qkv, stride, q_width, kv_width),
                           columns_of(qkv, stride, q_width + kv_width, kv_width), dout);
  checks.near(text(a), out, expected.out);
  checks.near("  log of sums " + std::string(name_of<T>()), numbers_of(log_sum_exp), expected.log_sum_exp,
              1e-5);

  AttentionBackward<T> backward{forward};
  backward.dout = dout_device.data();
  backward.dq = gradient.data();
  backward.dk = backward.dq + q_width;
  backward.dv = backward.dk + kv_width;
  backward.workspace = workspace.data();
  attention_backward(backward, shared_bytes);
  const Numbers got = numbers_of(gradient);
  const std::string format = name_of<T>();
  checks.near("  dq " + format, columns_of(got, stride, 0, q_width), expected.dq, tolerance<T>());
  checks.near("  dk " + format, columns_of(got, stride, q_width, kv_width), expected.dk, tolerance<T>());
  checks.near("  dv " + format, columns_of(got, stride, q_width + kv_width, kv_width), expected.dv,
              tolerance<T>());
}

/// Checks whether warpgroups compute attention, and that they do not if their tiles do not fit.
template <class T>
void check_selection(Checks& checks, bool expected) {
  const AttentionShape shape{1, 64, 1, 1, 64, true};
  const DeviceArray<T> qkv(on_device<T>(random_numbers(count(64, 192), 1))), out(count(64, 64));
  const DeviceArray<float> log_sum_exp(64);
  AttentionForward<T> in{shape, 192};
  in.q = in.k = in.v = qkv.data();
  in.out = out.data();
  in.log_sum_exp = log_sum_exp.data();
  checks.that(std::string("warpgroups compute ") + name_of<T>(),
              attention_forward_by_warpgroups(in, device_limits().shared_bytes) == expected);
  checks.that("  not in little shared memory", !attention_forward_by_warpgroups(in, 32 * 1024));
}

void check_reference(Checks& checks, bool causal) {
  const AttentionShape a{1, 3, 2, 1, 4, causal};
  Numbers q = random_numbers(24, 1), k = random_numbers(12, 2), v = random_numbers(12, 3);
  const Numbers dout = random_numbers(24, 4);
  const auto total = [&] {
    const Numbers out = reference::attention(a, q, k, v, dout).out;
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
    return sum;
  };
  const auto differences = [&](Numbers& of) {
    Numbers result;
    for (double& x : of) {
      const double before = x;
      x = before + 1e-5;
      const double up = total();
      x = before - 1e-5;
      result.push_back((up - total()) / 2e-5);
      x = before;
    }
    return result;
  };
  const auto gradient = reference::attention(a, q, k, v, dout);
  checks.near("reference dq by differences", gradient.dq, differences(q), 1e-8);
  checks.near("reference dk by differences", gradient.dk, differences(k), 1e-8);
  checks.near("reference dv by differences", gradient.dv, differences(v), 1e-8);
}

}  // namespace
}  // namespace dtfm::kernels

int main() {
  using namespace dtfm::kernels;
  return run_checks([](Checks& checks) {
    for (const bool causal : {true, false}) check_reference(checks, causal);
    // Shared memory for which attention uses mma.sync and not warpgroups. In the backward pass, mma_128 and
    // mma_64 allow the largest tiles for heads of 128 and of 64.
    constexpr std::size_t mma_128 = 113 * 1024, mma_64 = 79 * 1024, on_sm86 = 99 * 1024, on_sm75 = 64 * 1024;
    for_each_format([&]<class T>(T) {
      const auto check_both = [&](const AttentionShape& a) {
        check_attention<T>(checks, a);
        if (sizeof(T) == 2) check_attention<T>(checks, a, a.head_size == 64 ? mma_64 : on_sm86);
      };
      check_both({1, 150, 2, 1, 64, true});  // several tiles, the last one partial
      check_both({2, 37, 1, 1, 128, false});
      if (sizeof(T) == 2) {
        check_both({1, 200, 2, 1, 128, true});
        check_both({2, 128, 2, 1, 64, false});  // whole tiles only
        check_both({1, 129, 1, 1, 128, false});
        check_attention<T>(checks, {1, 150, 1, 1, 128, true}, mma_128);
        check_attention<T>(checks, {1, 70, 1, 1, 64, true}, on_sm75);
        check_attention<T>(checks, {1, 40, 1, 1, 128, false}, on_sm75);
      }
      if (emulated) return;
      check_both({2, 700, 4, 2, 128, true});
      check_both({2, 513, 4, 4, 64, false});
    });
    check_selection<Half>(checks, device_limits().warpgroup_products);
    check_selection<float>(checks, false);
    if (!emulated)
      for (const std::size_t shared_bytes : {std::size_t{0}, on_sm86})
        check_attention<Half>(checks, {1, 1024, 4, 4, 128, true}, shared_bytes);
  });
}
