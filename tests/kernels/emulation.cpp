// Tests the emulation itself: rounding, warp shuffles, barriers, and the detection of errors in kernels.
#include "kernels/norm.hpp"
#include "kernels/platform/reduce.cuh"
#include "tests/kernels/check.hpp"

namespace dtfm::kernels {
namespace {

/// Checks that every half and bfloat16 survives conversion to float and back, and that a number between two
/// neighbours is rounded to the nearer one, ties to even.
template <class T>
void check_rounding(Checks& checks, std::uint16_t infinity) {
  int wrong = 0;
  for (std::uint16_t bits = 0; bits < infinity; ++bits) {
    const float low = to_float(T{bits});
    const auto next = static_cast<std::uint16_t>(bits + 1);
    // Beyond the largest number, rounding behaves as if the range of exponents continued.
    const double high = next < infinity
                            ? static_cast<double>(to_float(T{next}))
                            : 2.0 * static_cast<double>(low) -
                                  static_cast<double>(to_float(T{static_cast<std::uint16_t>(bits - 1)}));
    const double middle = (static_cast<double>(low) + high) / 2;
    const auto rounded_bits = [](double value) { return from_float<T>(static_cast<float>(value)).bits; };
    const std::uint16_t even = bits % 2 == 0 ? bits : next;
    wrong += rounded_bits(static_cast<double>(low)) != bits;
    wrong += rounded_bits(static_cast<double>(-low)) != (bits | 0x8000u);
    wrong += rounded_bits(middle) != even;
    wrong += rounded_bits(static_cast<double>(std::nextafter(static_cast<float>(middle), 0.0F))) != bits;
    if (next < infinity)
      wrong +=
          rounded_bits(static_cast<double>(std::nextafter(static_cast<float>(middle), INFINITY))) != next;
  }
  checks.that(std::string("rounding to ") + name_of<T>(), wrong == 0, std::to_string(wrong) + " wrong");
  checks.that("not a number stays so", std::isnan(to_float(from_float<T>(NAN))));
  checks.that("infinity stays so", to_float(from_float<T>(-INFINITY)) == -INFINITY);
}

void shuffle_kernel(float* sums, int* neighbours, float* block) {
  const int i = thread_index();
  sums[i] = warp_sum(static_cast<float>(i));
  neighbours[i] = __shfl_down_sync(whole_warp, i, 3);
  block[i] = block_sums({static_cast<float>(i), 1}).x;
}

void check_shuffles(Checks& checks) {
  const DeviceArray<float> sums(96), block(96);
  const DeviceArray<int> neighbours(96);
  launch(shuffle_kernel, {1}, 96, 0, sums.data(), neighbours.data(), block.data());
  bool good = true;
  for (int i = 0; i < 96; ++i) {
    const int warp = i / 32;  // Σ of 32 numbers from 32·warp on
    good = good && sums.data()[i] == static_cast<float>(32 * 32 * warp + 31 * 16);
    good = good && neighbours.data()[i] == (i % 32 + 3 < 32 ? i + 3 : i);
    good = good && block.data()[i] == 95 * 48;
  }
  checks.that("sums and shuffles", good);
}

/// Computes a product of two fragments whose layout is written independently from the tables of the PTX
/// manual.
template <class T>
void product_kernel(const float* a, const float* b, float* c) {
  const int lane = thread_index(), g = lane / 4, t = lane % 4;
  const auto pair = [](float x, float y) {
    if constexpr (sizeof(T) == 4)
      return FloatPair{x, y};
    else
      return from_float<T>(x).bits | static_cast<std::uint32_t>(from_float<T>(y).bits) << 16;
  };
  const auto of_a = [&](int row, int k) { return pair(a[row * 16 + k], a[row * 16 + k + 1]); };
  const auto of_b = [&](int k) { return pair(b[k * 8 + g], b[(k + 1) * 8 + g]); };
  const Pair<T> fragment_a[4] = {of_a(g, 2 * t), of_a(g + 8, 2 * t), of_a(g, 2 * t + 8),
                                 of_a(g + 8, 2 * t + 8)};
  const Pair<T> fragment_b[2] = {of_b(2 * t), of_b(2 * t + 8)};
  float sum[4] = {};
  multiply_fragments<T>(sum, fragment_a, fragment_b);
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];
}

template <class T>
void check_product(Checks& checks) {
  const Numbers a = rounded<T>(random_numbers(256, 1)), b = rounded<T>(random_numbers(128, 2));
  const auto a_device = on_device<float>(a), b_device = on_device<float>(b);
  const DeviceArray<float> c(128);
  launch(product_kernel<T>, {1}, 32, 0, a_device.data(), b_device.data(), c.data());
  Numbers expected(128);
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j)
      for (std::size_t k = 0; k < 16; ++k) expected[i * 8 + j] += a[i * 16 + k] * b[k * 8 + j];
  checks.near(std::string("fragments of ") + name_of<T>(), numbers_of(c), expected, 1e-6);
}

template <class F>
std::string error_message(F f) {
  try {
    f();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

void divergent_barrier() {
  if (thread_index() != 7) __syncthreads();
  (void)warp_sum(1);
}

void waits_for_exited_thread() {
  if (thread_index() % 2 == 0) (void)warp_sum(1);
  __syncthreads();
}

void odd_address(const Half* from) {
  (void)load_raw(from + 1);
}

void shared_value(float* to) {
  *to = shared_memory<float>()[5];
}

void copy_without_waiting(const Half* from, Half* to) {
  Half* shared = shared_memory<Half>();
  copy_async(shared, from, true);
  commit_copies();
  to[0] = shared[0];
  wait_copies<0>();
  to[1] = shared[0];
}

void check_mistakes(Checks& checks) {
  const DeviceArray<Half> halves(std::vector<Half>(16, from_float<Half>(2)));
  const DeviceArray<Half> two(2);
  const DeviceArray<float> one(1);
  checks.that("a barrier that some threads skip",
              error_message([] { launch(divergent_barrier, {1}, 64, 0); }) != "");
  checks.that("half a warp", error_message([] { launch(waits_for_exited_thread, {1}, 32, 0); }) != "");
  checks.that("16 bytes at an odd address",
              error_message([&] { launch(odd_address, {1}, 1, 0, halves.data()); }) != "");
  checks.that("too many threads", error_message([] { launch(waits_for_exited_thread, {1}, 1056, 0); }) != "");
  checks.that("too much shared memory",
              error_message([] { launch(waits_for_exited_thread, {1}, 32, 1 << 20); }) != "");
  launch(shared_value, {1}, 1, 64, one.data());
  checks.that("shared memory holds NaN at first", std::isnan(*one.data()));
  emulation::set_schedule(emulation::Schedule::late);
  launch(copy_without_waiting, {1}, 1, 64, halves.data(), two.data());
  checks.that("copies land when they are waited for",
              std::isnan(to_float(two.data()[0])) && to_float(two.data()[1]) == 2);
}

/// Checks that a kernel with correct barriers gives the same bits for any order of its threads.
void check_order(Checks& checks) {
  const auto run = [](emulation::Schedule schedule) {
    emulation::set_schedule(schedule);
    const auto x = on_device<float>(random_numbers(8 * 1024, 1)),
               weight = on_device<float>(random_numbers(1024, 2));
    const DeviceArray<float> y(8 * 1024), mean(8), rstd(8);
    NormForward<float> in{8, 1024};
    in.x = x.data();
    in.weight = weight.data();
    in.y = y.data();
    in.mean = mean.data();
    in.rstd = rstd.data();
    norm_forward(in);
    emulation::set_schedule(emulation::Schedule::late);
    return y.to_host();
  };
  checks.that("the order of threads does not matter",
              run(emulation::Schedule::late) == run(emulation::Schedule::early));
}

}  // namespace
}  // namespace dtfm::kernels

int main() {
  using namespace dtfm::kernels;
  return run_checks([](Checks& checks) {
    check_rounding<Half>(checks, 0x7c00);
    check_rounding<Bfloat16>(checks, 0x7f80);
    check_shuffles(checks);
    check_product<float>(checks);
    check_product<Half>(checks);
    check_product<Bfloat16>(checks);
    check_mistakes(checks);
    check_order(checks);
  });
}
