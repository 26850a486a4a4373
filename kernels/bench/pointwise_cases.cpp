// Benchmarks of memory-bound kernels. Bytes are counted as the minimum that must be moved.
#include <algorithm>

#include "kernels/adam.hpp"
#include "kernels/bench/buffers.hpp"
#include "kernels/bench/cases.hpp"
#include "kernels/column_sum.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/norm.hpp"
#include "kernels/pointwise.hpp"

namespace dtfm::kernels {
namespace {

/// Times a copy on the device that moves `bytes`, counting those read and those written. Above 1 GiB, a copy
/// of 1 GiB is scaled, because the rate no longer depends on the size.
Times time_copy(double bytes, int runs) {
  constexpr double max_bytes = 1 << 30;
  const double moved = std::min(bytes, max_bytes);
  const auto size = std::max<std::int64_t>(1, static_cast<std::int64_t>(moved / (2 * sizeof(Half))));
  const int sets = rotation(moved);
  const Rotating<Half> from(size, sets), to(size, sets);
  Times times = time_of(runs, [&](int run) {
    copy_on_device(to[run], from[run], static_cast<std::size_t>(size) * sizeof(Half));
  });
  times.seconds *= bytes / moved;
  return times;
}

/// A benchmark's shape, with the sizes that its buffers have in common.
template <class T>
struct Bench {
  Report& report;
  const TransformerShape& shape;
  RankWidths w;
  int runs;

  std::int64_t size(int columns) const { return static_cast<std::int64_t>(w.rows) * columns; }
  /// Number of buffer sets to rotate, each of `arrays` arrays of rows × columns.
  int sets(int columns, int arrays) const {
    return rotation(static_cast<double>(size(columns)) * arrays * sizeof(T));
  }
  /// Times `work`, which moves `arrays` times rows × columns numbers.
  void run(const std::string& what, int columns, double arrays, const std::function<void(int)>& work) const {
    report_bytes(what, time_of(runs, work), arrays * static_cast<double>(size(columns)) * sizeof(T));
  }
  void report_bytes(const std::string& what, const Times& times, double bytes) const {
    report.bandwidth(what, times, bytes, time_copy(bytes, runs).seconds);
  }
};

template <class T>
void benchmark_norms(const Bench<T>& b) {
  const int columns = b.shape.hidden, sets = b.sets(columns, 4);
  const std::int64_t size = b.size(columns);
  const Rotating<T> x(size, sets), y(size, sets), residual(size, sets), dy(size, sets);
  const Rotating<T> weight(columns, 1, 1, 0.02F), bias(columns, 1), dweight(columns, 1), dbias(columns, 1);
  const Rotating<float> mean(b.w.rows, 1, 0, 0.1F), rstd(b.w.rows, 1, 1, 0.1F);
  const DeviceArray<float> workspace(norm_workspace(b.w.rows, columns));
  NormForward<T> in{b.w.rows, columns, b.shape.rms};
  in.weight = weight[0];
  in.bias = b.shape.rms ? nullptr : bias[0];
  in.mean = mean[0];
  in.rstd = rstd[0];
  const auto forward = [&](int run) {
    in.x = x[run];
    in.y = y[run];
    norm_forward(in);
  };
  b.run("norm forward", columns, 2, forward);
  b.run("residual + norm forward", columns, 4, [&](int run) {
    in.residual = residual[run];
    in.sum = residual[run];
    forward(run);
  });
  NormBackward<T> back{b.w.rows, columns, b.shape.rms};
  back.weight = weight[0];
  back.mean = mean[0];
  back.rstd = rstd[0];
  back.weight_gradient = dweight[0];
  back.bias_gradient = b.shape.rms ? nullptr : dbias[0];
  back.workspace = workspace.data();
  b.run("norm backward + residual gradient", columns, 4, [&](int run) {
    back.x = x[run];
    back.dy = dy[run];
    back.residual_gradient = residual[run];
    back.dx = y[run];
    norm_backward(back);
  });
  b.run("bias + residual", columns, 3,
        [&](int run) { add_residual<T>(b.w.rows, columns, x[run], residual[run], bias[0], y[run]); });
}

template <class T>
void benchmark_column_sum(const Bench<T>& b) {
  const int columns = b.shape.hidden;
  const Rotating<T> x(b.size(columns), b.sets(columns, 1)), sums(columns, 1);
  const DeviceArray<float> workspace(column_sum_workspace(b.w.rows, columns));
  b.run("sum of rows (bias gradient)", columns, 1,
        [&](int run) { column_sum<T>(x[run], b.w.rows, columns, columns, sums[0], true, workspace.data()); });
}

template <class T>
void benchmark_activations(const Bench<T>& b) {
  const int columns = b.w.ffn;
  const std::int64_t size = b.size(columns);
  if (b.shape.gated) {
    const int sets = b.sets(columns, 6);
    const Rotating<T> x(2 * size, sets), dx(2 * size, sets), y(size, sets);
    b.run("gated SiLU forward", columns, 3,
          [&](int run) { gated_silu_forward<T>(b.w.rows, columns, x[run], nullptr, y[run]); });
    b.run("gated SiLU backward", columns, 5,
          [&](int run) { gated_silu_backward<T>(b.w.rows, columns, x[run], nullptr, y[run], dx[run]); });
    return;
  }
  const int sets = b.sets(columns, 3);
  const Rotating<T> x(size, sets), dy(size, sets), y(size, sets), bias(columns, 1);
  b.run("bias + GELU forward", columns, 2,
        [&](int run) { gelu_forward<T>(b.w.rows, columns, x[run], bias[0], y[run]); });
  b.run("bias + GELU backward", columns, 3,
        [&](int run) { gelu_backward<T>(b.w.rows, columns, x[run], bias[0], dy[run], y[run]); });
}

template <class T>
void benchmark_qkv(const Bench<T>& b) {
  const int columns = b.w.qkv, turned = b.shape.rotary ? b.w.heads + b.w.kv_heads : 0;
  const Rotating<T> x(b.size(columns), b.sets(columns, 1)), bias(columns, 1, 0, 0.001F);
  b.run(b.shape.rotary ? "bias + rotary embedding" : "bias of queries, keys, values", columns, 2,
        [&](int run) {
          bias_rotary<T>(b.w.rows, columns, b.shape.sequence, b.w.head_size, turned, false, bias[0], x[run]);
        });
}

template <class T>
void benchmark_embedding(const Bench<T>& b) {
  const int columns = b.shape.hidden, sets = b.sets(columns, 2);
  const Rotating<T> tokens(static_cast<std::int64_t>(b.w.padded_vocabulary) * columns, 1),
      positions(static_cast<std::int64_t>(b.shape.sequence) * columns, 1), y(b.size(columns), sets);
  const Rotating<int> ids(b.w.rows, sets, 0, static_cast<float>(b.w.vocabulary));
  const Rotating<float> gradient(static_cast<std::int64_t>(b.w.padded_vocabulary) * columns, 1);
  // Rows of tokens are read and written; the table of positions is read once.
  const double positions_read = b.shape.rotary ? 0 : static_cast<double>(b.shape.sequence) / b.w.rows;
  b.run("embedding forward", columns, 2 + positions_read, [&](int run) {
    embedding_forward<T>(b.w.rows, columns, b.shape.sequence, ids[run], tokens[0],
                         b.shape.rotary ? nullptr : positions[0], y[run]);
  });
  // The kernel reads dy, and reads and writes as many floats of the gradient.
  const double arrays = 1 + 2.0 * sizeof(float) / sizeof(T);
  const Times times = time_of(b.runs, [&](int run) {
    embedding_backward<T>(b.w.rows, columns, b.shape.sequence, ids[run], y[run], gradient[0], nullptr, false);
  });
  b.report.bandwidth("embedding backward (atomic)", times,
                     arrays * static_cast<double>(b.size(columns)) * sizeof(T), 0);
}

template <class T>
void benchmark_loss_and_update(const Bench<T>& b) {
  const int stride = b.w.padded_vocabulary;
  {
    const Rotating<T> logits(b.size(stride), b.sets(stride, 1));
    const Rotating<int> labels(b.w.rows, 1, 0, static_cast<float>(b.w.vocabulary));
    const Rotating<float> loss(b.w.rows, 1);
    b.run("cross-entropy and its gradient", stride, 2, [&](int run) {
      cross_entropy<T>(b.w.rows, b.w.vocabulary, stride, logits[run], labels[0], 1, loss[0]);
    });
  }
  const std::int64_t size = layer_parameters(b.shape, LayerKind::block) / 8 * 8;
  const double bytes = static_cast<double>(size) * (2.0 * sizeof(T) + 6.0 * sizeof(float));
  const int sets = rotation(bytes);
  const Rotating<T> gradient(size, sets, 0, 0.01F), weight(size, sets);
  const Rotating<float> master(size, sets), first(size, sets, 0, 0.01F), second(size, sets, 0.01F, 0.001F);
  const Times times = time_of(b.runs, [&](int run) {
    adam<T, T>(size, AdamStep{}, gradient[run], master[run], first[run], second[run], weight[run]);
  });
  b.report_bytes("Adam step", times, bytes);
}

}  // namespace

void benchmark_copies(Report& report, int runs) {
  const double max_bytes = device_limits().cache_bytes < (4u << 20) ? 1 << 18 : 1 << 30;
  for (const double bytes : {max_bytes / 16, max_bytes / 4, max_bytes})
    report.bandwidth("copy of " + std::to_string(static_cast<int>(bytes / 2e3)) + " kB",
                     time_copy(bytes, runs), bytes, 0);
}

template <class T>
void benchmark_pointwise(Report& report, const TransformerShape& shape, int runs) {
  const Bench<T> bench{report, shape, rank_widths(shape), runs};
  benchmark_norms(bench);
  benchmark_column_sum(bench);
  benchmark_activations(bench);
  benchmark_qkv(bench);
  benchmark_embedding(bench);
  benchmark_loss_and_update(bench);
}

template void benchmark_pointwise<Half>(Report&, const TransformerShape&, int);
template void benchmark_pointwise<Bfloat16>(Report&, const TransformerShape&, int);

}  // namespace dtfm::kernels
