// Benchmarks of matrix products, attention and whole layers.
#include "kernels/attention.hpp"
#include "kernels/bench/buffers.hpp"
#include "kernels/bench/cases.hpp"
#include "kernels/measure.hpp"
#include "kernels/platform/matrix_product.hpp"

namespace dtfm::kernels {
namespace {

template <class T>
Times time_product(const ProductShape& p, int runs) {
  const std::int64_t m = p.m, n = p.n, k = p.k;
  const int sets = rotation(static_cast<double>(m * k + k * n + m * n) * p.batch * sizeof(T));
  const Rotating<T> a(m * k * p.batch, sets), b(k * n * p.batch, sets), c(m * n * p.batch, sets);
  return time_settled(runs, [&](int run) { matrix_product<T>(p, a[run], b[run], c[run]); });
}

double flops_of(const ProductShape& p) {
  return 2.0 * p.m * p.n * p.k * p.batch;
}

template <class T>
void report_product(Report& report, const std::string& what, const ProductShape& p, int runs, double best) {
  report.arithmetic(what, time_product<T>(p, runs), flops_of(p), best, 0);
}

/// Rate of cuBLAS for the products of attention with the sequence × sequence matrices written out: q·kᵀ and
/// p·v forward, three more backward.
template <class T>
double product_rate(const TransformerShape& shape, const RankWidths& w, bool backward, int runs) {
  const int n = shape.sequence, heads = shape.batch * w.heads;
  const ProductShape scores{n, n, w.head_size, false, true, heads},
      values{n, w.head_size, n, false, false, heads}, transposed{n, w.head_size, n, true, false, heads};
  const double scores_s = time_product<T>(scores, runs).seconds,
               values_s = time_product<T>(values, runs).seconds;
  if (!backward) return 2 * flops_of(scores) / (scores_s + values_s);
  const double transposed_s = time_product<T>(transposed, runs).seconds;
  return 5 * flops_of(scores) / (2 * scores_s + values_s + 2 * transposed_s);
}

template <class T>
void benchmark_attention(Report& report, const TransformerShape& shape, int runs) {
  const RankWidths w = rank_widths(shape);
  const AttentionShape a{shape.batch, shape.sequence, w.heads, w.kv_heads, w.head_size, shape.causal};
  const std::int64_t size = static_cast<std::int64_t>(w.rows) * w.qkv,
                     out_size = static_cast<std::int64_t>(w.rows) * w.q;
  const double forward_rate = product_rate<T>(shape, w, false, runs),
               backward_rate = product_rate<T>(shape, w, true, runs);
  const int sets = rotation(static_cast<double>(size + out_size) * sizeof(T));
  const Rotating<T> qkv(size, sets), out(out_size, sets), dout(out_size, sets), gradient(size, sets);
  const Rotating<float> log_sum_exp(static_cast<std::int64_t>(w.rows) * w.heads, sets);
  const DeviceArray<float> workspace(attention_workspace(a));
  const auto forward = [&](int run) {
    AttentionForward<T> in{a, w.qkv};
    in.q = qkv[run];
    in.k = in.q + w.q;
    in.v = in.k + w.kv;
    in.out = out[run];
    in.log_sum_exp = log_sum_exp[run];
    return in;
  };
  report.arithmetic("attention forward",
                    time_settled(runs, [&](int run) { attention_forward(forward(run)); }), attention_flops(a),
                    forward_rate, 0.6);
  report.arithmetic("attention backward",
                    time_settled(runs,
                                 [&](int run) {
                                   AttentionBackward<T> in{forward(run), dout[run], gradient[run]};
                                   in.dk = in.dq + w.q;
                                   in.dv = in.dk + w.kv;
                                   in.workspace = workspace.data();
                                   attention_backward(in);
                                 }),
                    2.5 * attention_flops(a), backward_rate, 0.6);
}

std::string name_of(LayerKind kind) {
  if (kind == LayerKind::embedding) return "embedding";
  return kind == LayerKind::block ? "block" : "head";
}

}  // namespace

template <class T>
void benchmark_products(Report& report, const TransformerShape& shape, int runs) {
  const RankWidths w = rank_widths(shape);
  const int side = w.rows < 1024 ? w.rows : 8192;
  const ProductShape square{side, side, side};
  const Times times = time_product<T>(square, runs);
  const double best = flops_of(square) / times.seconds;
  report.arithmetic("cuBLAS " + std::to_string(side) + " cubed", times, flops_of(square), 0, 0);
  report_product<T>(report, "cuBLAS queries, keys, values", {w.rows, w.qkv, shape.hidden, false, true}, runs,
                    best);
  report_product<T>(report, "cuBLAS attention output", {w.rows, shape.hidden, w.q, false, true}, runs, best);
  report_product<T>(report, "cuBLAS up", {w.rows, w.up, shape.hidden, false, true}, runs, best);
  report_product<T>(report, "cuBLAS down", {w.rows, shape.hidden, w.ffn, false, true}, runs, best);
  report_product<T>(report, "cuBLAS down, weight gradient", {shape.hidden, w.ffn, w.rows, true, false}, runs,
                    best);
  benchmark_attention<T>(report, shape, runs);
}

template void benchmark_products<Half>(Report&, const TransformerShape&, int);
template void benchmark_products<Bfloat16>(Report&, const TransformerShape&, int);

void benchmark_layers(Report& report, const TransformerShape& shape, int runs) {
  constexpr int repetitions = 5;
  std::vector<LayerKind> kinds{LayerKind::embedding, LayerKind::head};
  kinds.insert(kinds.end(), repetitions, LayerKind::block);
  const Measurement measured = measure(shape, kinds, runs);
  std::vector<double> forward, backward, update;
  std::vector<DeviceState> states;
  for (const LayerTimes& row : measured.rows) {
    states.push_back(row.state);
    if (row.kind == LayerKind::block) {
      forward.push_back(row.forward_s);
      backward.push_back(row.backward_s);
      update.push_back(row.update_s);
      if (forward.size() > 1) continue;
    }
    const std::string name = name_of(row.kind);
    report.arithmetic(name + " forward", {row.forward_s, row.forward_spread}, forward_flops(shape, row.kind),
                      0, 0);
    report.arithmetic(name + " backward", {row.backward_s, row.backward_spread},
                      backward_flops(shape, row.kind), 0, 0);
    report.arithmetic(name + " update", {row.update_s, row.update_spread}, 0, 0, 0);
    std::printf("%-34s %.3f GB held from forward to backward, %.3f GB in total\n", "",
                static_cast<double>(row.activation_bytes) / 1e9, static_cast<double>(row.peak_bytes) / 1e9);
  }
  if (!measured.error.empty()) throw DeviceError("layers: " + measured.error);
  const std::string times = std::to_string(repetitions) + " times";
  report.repeated("block forward, " + times, forward);
  report.repeated("block backward, " + times, backward);
  report.repeated("block update, " + times, update);
  if (const std::string text = text_of(states); !text.empty())
    std::printf("during the measurement: %s\n", text.c_str());
}

}  // namespace dtfm::kernels
