// Compares layer norm and RMS norm with the reference, and the gradients of the reference with finite
// differences.
#include "kernels/norm.hpp"

#include "kernels/column_sum.hpp"
#include "tests/kernels/reference.hpp"

namespace dtfm::kernels {
namespace {

template <class T>
void check_norm(Checks& checks, int rows, int columns, bool rms) {
  const std::string name =
      std::string(rms ? "RMS" : "layer") + " norm " + std::to_string(rows) + "×" + std::to_string(columns);
  const auto size = count(rows, columns), width = count(columns, 1);
  const Numbers x = rounded<T>(random_numbers(size, 1, 1, 3)), residual = rounded<T>(random_numbers(size, 2)),
                added = rounded<T>(random_numbers(width, 3)),
                weight = rounded<T>(random_numbers(width, 4, 0.5, 1)),
                bias = rounded<T>(random_numbers(width, 5)), dy = rounded<T>(random_numbers(size, 6));
  const auto x_device = on_device<T>(x), added_device = on_device<T>(added),
             weight_device = on_device<T>(weight), bias_device = on_device<T>(bias),
             dy_device = on_device<T>(dy);
  auto residual_device = on_device<T>(residual);
  DeviceArray<T> y(size), dx(size), dweight(width), dbias(width);
  DeviceArray<float> mean(count(rows, 1)), rstd(count(rows, 1)), workspace(norm_workspace(rows, columns));

  NormForward<T> forward{rows, columns, rms};
  forward.x = x_device.data();
  forward.weight = weight_device.data();
  forward.bias = rms ? nullptr : bias_device.data();
  forward.y = y.data();
  forward.mean = mean.data();
  forward.rstd = rstd.data();
  norm_forward(forward);
  const auto expected = reference::norm(rows, columns, rms, x, weight, bias);
  checks.near(name, y, expected.y);
  checks.near(name + " rstd " + name_of<T>(), numbers_of(rstd), expected.rstd, 1e-5);

  NormBackward<T> backward{rows, columns, rms};
  backward.x = x_device.data();
  backward.dy = dy_device.data();
  backward.weight = weight_device.data();
  backward.mean = mean.data();
  backward.rstd = rstd.data();
  backward.residual_gradient = residual_device.data();
  backward.dx = dx.data();
  backward.weight_gradient = dweight.data();
  backward.bias_gradient = rms ? nullptr : dbias.data();
  backward.workspace = workspace.data();
  norm_backward(backward);
  backward.accumulate = true;
  norm_backward(backward);  // accumulates twice the gradient
  const auto gradient = reference::norm_gradient(rows, columns, rms, x, weight, dy);
  const auto twice = [](const Numbers& v) { return reference::sum(v, v); };
  checks.near(name + " dx", dx, reference::sum(gradient.dx, residual));
  checks.near(name + " dweight", dweight, twice(gradient.dweight));
  if (!rms) checks.near(name + " dbias", dbias, twice(gradient.dbias));

  forward.residual = residual_device.data();
  forward.added_bias = added_device.data();
  forward.sum = residual_device.data();  // in place
  norm_forward(forward);
  const Numbers sum = rounded<T>(reference::with_bias(reference::sum(x, residual), added));
  checks.near(name + " residual sum", residual_device, sum);
  checks.near(name + " after a sum", y, reference::norm(rows, columns, rms, sum, weight, bias).y);
}

template <class T>
void check_column_sum(Checks& checks, int rows, int columns, int stride) {
  const Numbers x = rounded<T>(random_numbers(count(rows, stride), 7)),
                before = rounded<T>(random_numbers(count(columns, 1), 8));
  const auto x_device = on_device<T>(x);
  const auto sums = on_device<T>(before);
  DeviceArray<float> workspace(column_sum_workspace(rows, columns));
  column_sum(x_device.data(), rows, columns, stride, sums.data(), true, workspace.data());
  Numbers expected = reference::sum_of_rows(x, count(stride, 1));
  expected.resize(count(columns, 1));
  checks.near("column sum", sums, reference::sum(expected, before));
}

/// Checks norm_gradient by central differences of Σ dy·norm(x).
void check_reference(Checks& checks, bool rms) {
  const int rows = 3, columns = 5;
  const Numbers x = random_numbers(15, 1), weight = random_numbers(5, 2, 1, 1), bias = random_numbers(5, 3),
                dy = random_numbers(15, 4);
  const auto value = [&](const Numbers& at, const Numbers& w) {
    const Numbers y = reference::norm(rows, columns, rms, at, w, bias).y;
    double total = 0;
    for (std::size_t i = 0; i < y.size(); ++i) total += dy[i] * y[i];
    return total;
  };
  const auto gradient = reference::norm_gradient(rows, columns, rms, x, weight, dy);
  const double h = 1e-5;
  Numbers dx, dweight;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Numbers up = x, down = x;
    up[i] += h;
    down[i] -= h;
    dx.push_back((value(up, weight) - value(down, weight)) / (2 * h));
  }
  for (std::size_t i = 0; i < weight.size(); ++i) {
    Numbers up = weight, down = weight;
    up[i] += h;
    down[i] -= h;
    dweight.push_back((value(x, up) - value(x, down)) / (2 * h));
  }
  checks.near("reference dx by differences", gradient.dx, dx, 1e-7);
  checks.near("reference dweight by differences", gradient.dweight, dweight, 1e-7);
}

}  // namespace
}  // namespace dtfm::kernels

int main() {
  using namespace dtfm::kernels;
  return run_checks([](Checks& checks) {
    for (const bool rms : {false, true}) {
      check_reference(checks, rms);
      for_each_format([&]<class T>(T) {
        check_norm<T>(checks, 5, 40, rms);         // less than a warp
        check_norm<T>(checks, 14, 776, rms);       // more rows than blocks; a partial warp
        if (!rms && !std::is_same_v<T, Bfloat16>)  // more than 1024 packs: four per thread
          check_norm<T>(checks, 2, sizeof(T) == 4 ? 4104 : 8208, rms);
        check_norm<T>(checks, 2, 1096, rms);  // two per thread
        if (!emulated) check_norm<T>(checks, 2000, 8192, rms);
      });
    }
    for_each_format([&]<class T>(T) {
      check_column_sum<T>(checks, 300, 264, 320);
      check_column_sum<T>(checks, 1, 8, 8);
      if (!emulated) check_column_sum<T>(checks, 5000, 4096, 4096);
    });
  });
}
