// The mathematics of every kernel in double precision, written for readability. Matrices are row-major.
#pragma once

#include <algorithm>

#include "kernels/attention.hpp"
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

/// Adds a bias to each row: y[r][c] = x[r][c] + bias[c].
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

/// Applies the rotary embedding to the first `heads` heads of each row; sign −1 inverts it.
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

inline Numbers transposed(const Numbers& matrix, int rows, int columns) {
  Numbers result(matrix.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      result[count(c, rows) + count(r, 1)] = matrix[count(r, columns) + count(c, 1)];
  return result;
}

/// Returns op(a) · op(b), m × n, of a (m × k, or k × m if transposed) and b (k × n, or n × k).
inline Numbers product(bool transpose_a, bool transpose_b, int m, int n, int k, const Numbers& a,
                       const Numbers& b) {
  const Numbers left = transpose_a ? transposed(a, k, m) : a, right = transpose_b ? transposed(b, n, k) : b;
  Numbers c(count(m, n));
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l) {
      const double factor = left[count(i, k) + count(l, 1)];
      const double* const from = right.data() + count(l, n);
      double* const to = c.data() + count(i, n);
      for (int j = 0; j < n; ++j) to[j] += factor * from[j];
    }
  return c;
}

struct AttentionResult {
  Numbers out, log_sum_exp, dq, dk, dv;
};

/// q is batch·sequence × heads·head_size, k and v are batch·sequence × kv_heads·head_size. The gradients are
/// those of Σ dout · out.
inline AttentionResult attention(const AttentionShape& a, const Numbers& q, const Numbers& k,
                                 const Numbers& v, const Numbers& dout) {
  AttentionResult r{Numbers(q.size()), Numbers(count(a.batch * a.heads, a.sequence)), Numbers(q.size()),
                    Numbers(k.size()), Numbers(v.size())};
  const auto n = count(a.sequence, 1), size = count(a.head_size, 1), heads = count(a.heads, 1),
             kv = count(a.kv_heads, 1);
  const double scale = 1 / std::sqrt(static_cast<double>(a.head_size));
  for (std::size_t b = 0; b < count(a.batch, 1); ++b)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t at = ((b * n + i) * heads + h) * size;
        const auto kv_at = [&](std::size_t j) { return ((b * n + j) * kv + h / (heads / kv)) * size; };
        const std::size_t end = a.causal ? i + 1 : n;
        Numbers p(end), dp(end);
        double maximum = -1e300, total = 0, delta = 0;
        for (std::size_t j = 0; j < end; ++j) {
          for (std::size_t d = 0; d < size; ++d) p[j] += q[at + d] * k[kv_at(j) + d] * scale;
          maximum = std::max(maximum, p[j]);
        }
        for (double& value : p) total += value = std::exp(value - maximum);
        r.log_sum_exp[(b * heads + h) * n + i] = maximum + std::log(total);
        for (std::size_t j = 0; j < end; ++j) {
          p[j] /= total;
          for (std::size_t d = 0; d < size; ++d) {
            r.out[at + d] += p[j] * v[kv_at(j) + d];
            dp[j] += dout[at + d] * v[kv_at(j) + d];
            r.dv[kv_at(j) + d] += p[j] * dout[at + d];
          }
          delta += p[j] * dp[j];
        }
        for (std::size_t j = 0; j < end; ++j)
          for (std::size_t d = 0; d < size; ++d) {
            const double ds = p[j] * (dp[j] - delta) * scale;
            r.dq[at + d] += ds * k[kv_at(j) + d];
            r.dk[kv_at(j) + d] += ds * q[at + d];
          }
      }
  return r;
}

}  // namespace dtfm::kernels::reference
