// The mathematics of every kernel in double precision, written to be read. Matrices are row by row.
#pragma once

#include <algorithm>

#include "tests/kernels/check.hpp"

namespace dtfm::kernels::reference {

struct NormResult {
  Numbers y, mean, rstd;
};

inline NormResult norm(int rows, int columns, bool rms, const Numbers& x, const Numbers& weight,
                       const Numbers& bias) {
  NormResult out{Numbers(x.size()), Numbers(count(rows, 1)), Numbers(count(rows, 1))};
  const auto width = count(columns, 1);
  for (std::size_t r = 0; r < count(rows, 1); ++r) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < width && !rms; ++c) mean += x[r * width + c] / columns;
    for (std::size_t c = 0; c < width; ++c) variance += std::pow(x[r * width + c] - mean, 2) / columns;
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    for (std::size_t c = 0; c < width; ++c)
      out.y[r * width + c] = (x[r * width + c] - mean) * rstd * weight[c] + (rms ? 0 : bias[c]);
    out.mean[r] = mean;
    out.rstd[r] = rstd;
  }
  return out;
}

struct NormGradient {
  Numbers dx, dweight, dbias;
};

inline NormGradient norm_gradient(int rows, int columns, bool rms, const Numbers& x, const Numbers& weight,
                                  const Numbers& dy) {
  const auto width = count(columns, 1);
  const NormResult forward = norm(rows, columns, rms, x, weight, Numbers(width, 0));
  NormGradient out{Numbers(x.size()), Numbers(width), Numbers(width)};
  for (std::size_t r = 0; r < count(rows, 1); ++r) {
    const double mean = forward.mean[r], rstd = forward.rstd[r];
    double sum_g = 0, sum_gh = 0;
    for (std::size_t c = 0; c < width; ++c) {
      const double h = (x[r * width + c] - mean) * rstd, d = dy[r * width + c];
      out.dweight[c] += d * h;
      out.dbias[c] += d;
      sum_g += d * weight[c];
      sum_gh += d * weight[c] * h;
    }
    for (std::size_t c = 0; c < width; ++c) {
      const double h = (x[r * width + c] - mean) * rstd;
      out.dx[r * width + c] =
          rstd * (dy[r * width + c] * weight[c] - (rms ? 0 : sum_g / columns) - h * sum_gh / columns);
    }
  }
  return out;
}

inline double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

inline double gelu_slope(double x) {
  const double k = std::sqrt(2 / 3.14159265358979323846), t = std::tanh(k * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

inline double silu(double x) {
  return x / (1 + std::exp(-x));
}

inline double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}

/// y[r][c] = Σ_r … + bias[c]: adds a bias to each row.
inline Numbers with_bias(Numbers x, const Numbers& bias) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
  return x;
}

inline Numbers sum(Numbers a, const Numbers& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

inline Numbers sum_of_rows(const Numbers& x, std::size_t columns) {
  Numbers sums(columns);
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % columns] += x[i];
  return sums;
}

/// Turns the first `heads` heads of each row; sign −1 turns back.
inline Numbers rotated(Numbers x, int columns, int sequence, int head_size, int heads, int sign = 1) {
  const auto width = count(columns, 1), size = count(head_size, 1);
  for (std::size_t r = 0; r < x.size() / width; ++r)
    for (std::size_t h = 0; h < count(heads, 1); ++h)
      for (std::size_t i = 0; i < size / 2; ++i) {
        const double angle = static_cast<double>(r % count(sequence, 1)) *
                             std::pow(10000.0, -2 * static_cast<double>(i) / head_size) * sign;
        double& a = x[r * width + h * size + i];
        double& b = x[r * width + h * size + i + size / 2];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
  return x;
}

struct LossResult {
  Numbers loss, gradient;
};

inline LossResult cross_entropy(int rows, int classes, int stride, const Numbers& logits,
                                const std::vector<int>& labels, double scale) {
  LossResult out{Numbers(count(rows, 1)), Numbers(logits.size())};
  for (std::size_t r = 0; r < count(rows, 1); ++r) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(r * count(stride, 1));
    const double maximum = *std::max_element(first, first + classes);
    double total = 0;
    for (int c = 0; c < classes; ++c) total += std::exp(first[c] - maximum);
    out.loss[r] = maximum + std::log(total) - (labels[r] < classes ? first[labels[r]] : 0);
    for (int c = 0; c < classes; ++c)
      out.gradient[r * count(stride, 1) + count(c, 1)] =
          (std::exp(first[c] - maximum) / total - (c == labels[r] ? 1 : 0)) * scale;
  }
  return out;
}

/// op(a) · op(b): m × n, from a (m × k, or k × m where transposed) and b (k × n, or n × k).
inline Numbers product(bool transpose_a, bool transpose_b, int m, int n, int k, const Numbers& a,
                       const Numbers& b) {
  Numbers c(count(m, n));
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l) {
      const double left = transpose_a ? a[count(l, m) + count(i, 1)] : a[count(i, k) + count(l, 1)];
      for (int j = 0; j < n; ++j)
        c[count(i, n) + count(j, 1)] +=
            left * (transpose_b ? b[count(j, k) + count(l, 1)] : b[count(l, n) + count(j, 1)]);
    }
  return c;
}

}  // namespace dtfm::kernels::reference
