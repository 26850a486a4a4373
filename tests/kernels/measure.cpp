// Tests the measurement of layers: what it counts, and that errors are returned as values.
#include "kernels/measure.hpp"

#include "kernels/timing.hpp"
#include "tests/kernels/check.hpp"

namespace dtfm::kernels {
namespace {

constexpr LayerKind all_kinds[] = {LayerKind::embedding, LayerKind::block, LayerKind::head};

TransformerShape tiny(bool llama) {
  if (llama) return {1, 24, 128, 2, 1, 88, 101, true, true, true};
  return {2, 16, 128, 2, 2, 512, 101};
}

void check_rows(Checks& checks) {
  const TransformerShape shape = tiny(false);
  const Measurement got = measure(shape, all_kinds, 3);
  checks.that("no error", got.error.empty(), got.error);
  checks.that("a row per kind, in order", got.rows.size() == 3 && got.rows[0].kind == LayerKind::embedding &&
                                              got.rows[1].kind == LayerKind::block &&
                                              got.rows[2].kind == LayerKind::head);
  checks.that("the device has a name", !device_identity().name.empty());
  for (const LayerTimes& row : got.rows) {
    checks.that("micro-batch and degree", row.micro_batch == 2 && row.tensor_parallel == 1);
    checks.that("times are times",
                row.forward_s > 0 && row.backward_s > 0 && row.update_s > 0 && row.forward_spread >= 0);
    checks.that("peak holds the activations", row.peak_bytes > row.activation_bytes);
  }
  // 32 tokens of 128: x, h1, attention's output, sum, h2 (5 h), qkv (3 h), two of the MLP (8 h), 2 bytes
  // each; four numbers of the norms and two sums of the heads per token, 4 bytes each.
  checks.that("activations of a block", got.rows[1].activation_bytes == 32 * (16 * 128 * 2 + 6 * 4));
  // x and h, logits of 101 padded to 128, mean, rstd and label.
  checks.that("activations of a head", got.rows[2].activation_bytes == 32 * (2 * 128 * 2 + 128 * 2 + 3 * 4));
  // Two FLOPs per multiply-add: 12 h² per token in the matrices, s/2 · 2 h in causal attention.
  const double flops = 32 * (2 * 12 * 128.0 * 128 + 2 * 16 * 128.0);
  checks.near("FLOPs of a block", {got.rows[1].forward_tflops * 1e12 * got.rows[1].forward_s}, {flops},
              1e-12);
}

void check_counts(Checks& checks) {
  TransformerShape shape = tiny(true);
  // Norms 2 h, queries and output h² each, keys and values h²/2 each, three matrices of the MLP.
  checks.that("parameters of a block",
              layer_parameters(shape, LayerKind::block) == 2 * 128 + 3 * 128 * 128 + 3 * 128 * 88);
  checks.that("parameters of an embedding", layer_parameters(shape, LayerKind::embedding) == 128 * 128);
  shape = {1, 2048, 4096, 32, 8, 14336, 128256, true, true, true};  // LLaMA-3-8B: 8.03 G parameters
  const auto total = 32 * layer_parameters(shape, LayerKind::block) +
                     layer_parameters(shape, LayerKind::embedding) + layer_parameters(shape, LayerKind::head);
  checks.near("parameters of LLaMA-3-8B", {static_cast<double>(total)}, {8.03e9}, 0.001);
  shape.tensor_parallel = 4;
  const RankWidths w = rank_widths(shape);
  checks.that("a rank of four", w.heads == 8 && w.kv_heads == 2 && w.ffn == 3584 && w.vocabulary == 32064 &&
                                    w.padded_vocabulary == 32128);
}

void check_errors(Checks& checks) {
  const auto error_message = [](TransformerShape shape, int runs) {
    return measure(shape, all_kinds, runs).error;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  TransformerShape shape = tiny(false);
  checks.that("no runs", has(error_message(shape, 0), "runs must be at least 1"));
  shape.heads = 3;
  checks.that("heads that do not divide", has(error_message(shape, 3), "128 ÷ 3"));
  shape.head_size = 32;
  checks.that("another head size", has(error_message(shape, 3), "the head size must be 64 or 128, not 32"));
  shape = tiny(false);
  shape.tensor_parallel = 3;
  checks.that("ranks that do not divide", has(error_message(shape, 3), "3 ranks"));
  shape.tensor_parallel = -1;
  checks.that("negative degree", has(error_message(shape, 3), "must be positive"));
  shape = tiny(false);
  shape.sequence = 1;
  shape.batch = 65536;  // the z dimension of a grid is limited to 65,535
  checks.that("too many sequences", has(error_message(shape, 3), "at most 65535 sequences, not 65536"));
  shape = tiny(false);
  shape.hidden = 16384 + 128;
  shape.heads = shape.kv_heads = 129;
  checks.that("too wide in 16 bits", has(error_message(shape, 3), "at most 16384 in 16 bits, not 16512"));
  shape.dtype = DType::f32;
  shape.hidden = 8192 + 128;
  shape.heads = shape.kv_heads = 65;
  checks.that("too wide in fp32", has(error_message(shape, 3), "at most 8192 in 32 bits, not 8320"));
#ifdef DTFM_EMULATED
  // Two embeddings of 128 + 16 rows of 128 numbers need 0.5 MB and blocks more: memory is exhausted halfway.
  emulation::set_memory_limit(700'000);
  const Measurement got = measure(tiny(false), all_kinds, 1);
  checks.that("memory runs out in the middle",
              got.rows.size() == 1 && got.is_out_of_memory && has(got.error, "out of memory"), got.error);
  checks.that("nothing stays allocated", emulation::memory_held() == 0);
  emulation::set_memory_limit(static_cast<std::size_t>(-1));
#else
  shape = tiny(false);
  shape.batch = 4096;
  shape.sequence = 1024;
  shape.hidden = 16384;
  shape.heads = shape.kv_heads = 128;
  checks.that("memory runs out", has(measure(shape, all_kinds, 1).error, "memory"));
  checks.that("and the device still works", measure(tiny(false), all_kinds, 1).error.empty());
#endif
}

void check_state_text(Checks& checks) {
  DeviceState warm, hot;
  checks.that("without known states there is no text", text_of(std::vector{warm, hot}).empty());
  warm.sm_clock_mhz = 1755;
  warm.temperature_celsius = hot.temperature_celsius = 61;
  checks.that("what is known", text_of(std::vector{warm, hot}) == "1755 MHz, 61 °C",
              text_of(std::vector{warm, hot}));
  hot.sm_clock_mhz = 1695;
  warm.max_sm_clock_mhz = hot.max_sm_clock_mhz = 1980;
  hot.power_watts = 699.7;
  warm.throttle_reasons = 0x4;
  hot.throttle_reasons = 0x44;
  checks.that("ranges, and all that held clocks back",
              text_of(std::vector{warm, hot}) ==
                  "1695 to 1755 MHz of 1980, 61 °C, 700 W at most, limited by the power cap and temperature "
                  "(hardware)",
              text_of(std::vector{warm, hot}));
}

/// Checks that the device's state is read once, after the last run has been queued.
void check_concurrent_load(Checks& checks) {
  std::string order;
  time_steps(
      {2}, {[&](int) { order += 's'; }}, [&](int) { order += 'a'; }, [&] { order += 'm'; });
  checks.that("read once, after all runs", order.size() > 8 && order.find('m') == order.size() - 1, order);
}

/// Checks that half a gigabyte is left for libraries.
void check_memory_limit([[maybe_unused]] Checks& checks) {
#ifdef DTFM_EMULATED
  emulation::set_memory_limit(emulation::memory_held() + (std::size_t{512} << 20) + 100);
  checks.that("room for 100 bytes and the libraries", has_room(100) && !has_room(101));
  emulation::set_memory_limit(1000);
  checks.that("no room where libraries have none", !has_room(0));
  emulation::set_memory_limit(static_cast<std::size_t>(-1));
#endif
}

/// Checks the order of layers; all layers have had a forward pass before the first run.
void check_interleaving(Checks& checks, int layers) {
  bool one_each = true, apart = true;
  std::vector<int> waiting(static_cast<std::size_t>(layers), 1);
  std::vector<int> latest(static_cast<std::size_t>(layers), -layers);
  for (int run = 0; run < 4 * layers; ++run) {
    const Turn turn = turn_of(run, layers);
    latest[static_cast<std::size_t>(turn.forward)] = run;
    waiting[static_cast<std::size_t>(turn.forward)] = 1;
    int& forwards = waiting[static_cast<std::size_t>(turn.backward)];
    one_each = one_each && forwards == 1;
    forwards = 0;
    apart = apart && run - latest[static_cast<std::size_t>(turn.backward)] >= layers / 2 &&
            (layers < 2 || turn.forward != turn.backward) &&
            (layers < 3 || (turn.update != turn.forward && turn.update != turn.backward));
  }
  const std::string of = " of " + std::to_string(layers);
  checks.that("a backward has a forward of its own" + of, one_each);
  checks.that("steps of a run are of different layers" + of, apart);
}

void check_summary(Checks& checks) {
  // 1 … 11: the median is 6, the 10th and 90th percentiles are 2 and 10.
  std::vector<double> seconds;
  for (int i = 11; i > 0; --i) seconds.push_back(i);
  const Times times = summary(seconds);
  checks.near("median and spread", {times.seconds, times.spread}, {6, 8.0 / 6}, 1e-12);
  checks.that("one run", summary({3}).seconds == 3 && summary({3}).spread == 0);
}

}  // namespace
}  // namespace dtfm::kernels

int main() {
  using namespace dtfm::kernels;
  const auto body = [](Checks& checks) {
    check_summary(checks);
    check_state_text(checks);
    check_concurrent_load(checks);
    check_memory_limit(checks);
    for (const int layers : {1, 2, 3, 4, 5, 64}) check_interleaving(checks, layers);
    check_counts(checks);
    check_rows(checks);
    check_errors(checks);
  };
  return run_checks(body, false);  // one schedule is enough for times and counts
}
