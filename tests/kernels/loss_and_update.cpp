// Compares cross-entropy and the optimizer step with the reference.
#include "kernels/adam.hpp"
#include "kernels/cross_entropy.hpp"
#include "tests/kernels/reference.hpp"

namespace dtfm::kernels {
namespace {

template <class T>
void check_loss(Checks& checks, int rows, int classes, int stride) {
  const std::string name = "cross-entropy of " + std::to_string(classes) + " classes";
  const Numbers logits = rounded<T>(random_numbers(count(rows, stride), 1, 3, 5));
  std::vector<int> labels = random_integers(count(rows, 1), classes, 2);
  labels.back() = classes + 3;  // belongs to another rank's shard
  const auto logits_device = on_device<T>(logits);
  const DeviceArray<int> labels_device(labels);
  const DeviceArray<float> loss(count(rows, 1));
  cross_entropy<T>(rows, classes, stride, logits_device.data(), labels_device.data(), 16, loss.data());
  const auto expected = reference::cross_entropy(rows, classes, stride, logits, labels, 16);
  checks.near(name + " " + name_of<T>(), numbers_of(loss), expected.loss, 1e-5);
  checks.near(name + " gradient", logits_device, expected.gradient);
}

void check_reference(Checks& checks) {
  const Numbers logits = random_numbers(12, 3);
  const std::vector<int> labels{4, 0};
  const auto total = [&](const Numbers& at) {
    const Numbers loss = reference::cross_entropy(2, 5, 6, at, labels, 1).loss;
    return loss[0] + loss[1];
  };
  Numbers differences;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    Numbers up = logits, down = logits;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    differences.push_back((total(up) - total(down)) / 2e-5);
  }
  checks.near("reference gradient by differences",
              reference::cross_entropy(2, 5, 6, logits, labels, 1).gradient, differences, 1e-8);
}

template <class T, class G>
void check_adam(Checks& checks, std::size_t size) {
  const Numbers gradient = rounded<G>(random_numbers(size, 1, 0.1));
  Numbers p = rounded<float>(random_numbers(size, 2)), m = rounded<float>(random_numbers(size, 3, 0.1)),
          v = rounded<float>(random_numbers(size, 4, 0.001, 0.01));
  const auto gradient_device = on_device<G>(gradient);
  const auto p_device = on_device<float>(p), m_device = on_device<float>(m), v_device = on_device<float>(v);
  const DeviceArray<T> weight(size);
  AdamStep step;
  step.learning_rate = 0.01F;
  step.step = 3;
  step.gradient_scale = 0.5F;
  adam<T, G>(static_cast<std::int64_t>(size), step, gradient_device.data(), p_device.data(), m_device.data(),
             v_device.data(), weight.data());
  for (std::size_t i = 0; i < size; ++i) {
    const double g = gradient[i] * 0.5;
    m[i] = 0.9 * m[i] + 0.1 * g;
    v[i] = 0.95 * v[i] + 0.05 * g * g;
    const double first = m[i] / (1 - std::pow(0.9, 3)), second = v[i] / (1 - std::pow(0.95, 3));
    p[i] -= 0.01 * 0.1 * p[i] + 0.01 * first / (std::sqrt(second) + 1e-8);
  }
  checks.near("adam master weights", p_device, p);
  checks.near("adam first moments", m_device, m);
  checks.near("adam second moments", v_device, v);
  checks.near("adam weights", weight, p);
}

}  // namespace
}  // namespace dtfm::kernels

int main() {
  using namespace dtfm::kernels;
  return run_checks([](Checks& checks) {
    check_reference(checks);
    for_each_format([&]<class T>(T) {
      check_loss<T>(checks, 3, 101, 104);    // a small block
      check_loss<T>(checks, 2, 5003, 5120);  // the row stays in shared memory
      check_loss<T>(checks, 2, 20011, 20096);
      check_loss<T>(checks, 2, 66001, 66048);  // in fp32 the row is too long for that: a part is read again
      check_loss<T>(checks, 2, 90001, 90112);
      check_loss<T>(checks, 2, 82001, 90112);  // in 16 bits all classes are in the part that stays
      if (!emulated) check_loss<T>(checks, 512, 50257, 50304);
      check_adam<T, T>(checks, 2056);
      check_adam<T, float>(checks, emulated ? 1024 : 5'000'000);
    });
  });
}
