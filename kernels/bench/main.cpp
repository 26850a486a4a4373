// kernels_bench: times every kernel and layer of a model on this GPU, next to what cuBLAS and a plain copy
// achieve.
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "kernels/bench/cases.hpp"
#include "kernels/bench/profile_file.hpp"
#include "kernels/bench/shapes.hpp"
#include "kernels/platform/device.hpp"
#include "kernels/platform/device_state.hpp"

namespace dtfm::kernels {
namespace {

constexpr const char* usage =
    "usage: kernels_bench [--runs N] [--no-targets] [--rows FILE] [--profile DIR [--gpu NAME]] [MODEL]…\n"
    "                     (default models: gpt3-xl gpt3-6.7b llama-3-8b)\n"
    "Times the kernels and layers of transformers on this GPU.\n"
    "  --runs N       runs per measurement [30]\n"
    "  --no-targets   print times only, check no targets\n"
    "  --rows FILE    also write the times as tab-separated rows\n"
    "  --profile DIR  write DIR/GPU-MODEL.json (dtfm-profile/1) for each model\n"
    "  --gpu NAME     GPU name to use in profiles [the driver's name]\n"
    "Exit codes: 0 all targets met, 1 a target missed, 2 bad usage, no GPU, or a failed measurement.\n"
    "Models:";

struct Options {
  int runs = 30;
  bool checks_targets = true;
  std::string rows_file;
  ProfileTarget profile;
  std::vector<NamedShape> shapes;
};

void print_usage() {
  std::fputs(usage, stderr);
  for (const NamedShape& named : named_shapes) std::fprintf(stderr, " %s", std::string(named.name).c_str());
  std::fputs("\n", stderr);
}

const NamedShape* find_shape(const char* name) {
  for (const NamedShape& named : named_shapes)
    if (named.name == name) return &named;
  return nullptr;
}

bool read_options(const std::vector<const char*>& words, Options& options) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* word = words[i];
    if (std::strcmp(word, "--runs") == 0 && i + 1 < words.size()) {
      options.runs = std::atoi(words[++i]);
      if (options.runs < 1) return false;
    } else if (std::strcmp(word, "--rows") == 0 && i + 1 < words.size()) {
      options.rows_file = words[++i];
    } else if (std::strcmp(word, "--profile") == 0 && i + 1 < words.size()) {
      options.profile.folder = words[++i];
    } else if (std::strcmp(word, "--gpu") == 0 && i + 1 < words.size()) {
      options.profile.gpu = words[++i];
    } else if (std::strcmp(word, "--no-targets") == 0) {
      options.checks_targets = false;
    } else if (const NamedShape* named = find_shape(word)) {
      options.shapes.push_back(*named);
    } else {
      return false;
    }
  }
  if (options.shapes.empty())
    for (const char* name : {"gpt3-xl", "gpt3-6.7b", "llama-3-8b"})
      options.shapes.push_back(*find_shape(name));
  return true;
}

template <class T>
void benchmark(Report& report, const TransformerShape& shape, int runs) {
  report.title("memory-bound kernels (share: time of a copy of as many bytes ÷ time)");
  benchmark_pointwise<T>(report, shape, runs);
  report.title("matrix products (share: of the large product) and attention (share: of cuBLAS)");
  benchmark_products<T>(report, shape, runs);
  report.title("layers");
  benchmark_layers(report, shape, runs);
}

/// Runs one table and returns whether it completed. An error such as out of memory is printed, and the
/// remaining tables still run.
bool finished(const std::string& what, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "kernels_bench: %s: %s\n", what.c_str(), error.what());
    return false;
  }
}

int run(const Options& options) {
  const DeviceIdentity device = device_identity();
  std::printf("%s, %.1f GB, driver %s, CUDA %d.%d\n", device.name.c_str(),
              static_cast<double>(device.memory_bytes) / 1e9, device.driver_version.c_str(),
              device.cuda_runtime_version / 1000, device.cuda_runtime_version % 1000 / 10);
  std::printf("16-bit attention by %s\n",
              device_limits().warpgroup_products ? "warpgroups (wgmma)" : "warps (mma.sync)");
  Report report(options.checks_targets, options.rows_file);
  report.title("bandwidth");
  bool all = finished("bandwidth", [&] { benchmark_copies(report, options.runs); });
  for (const NamedShape& model : options.shapes) {
    const std::string name(model.name);
    const TransformerShape& shape = model.shape;
    std::printf("\n== %s: %d × %d tokens, hidden %d, %d/%d heads, %s\n", name.c_str(), shape.batch,
                shape.sequence, shape.hidden, shape.heads, shape.kv_heads, name_of(shape.dtype));
    report.model(name, shape.batch);
    all &= finished(name, [&] {
      if (shape.dtype == DType::bf16)
        benchmark<Bfloat16>(report, shape, options.runs);
      else
        benchmark<Half>(report, shape, options.runs);
    });
    if (options.profile.folder.empty()) continue;
    all &= finished("profile of " + name, [&] { write_profile(options.profile, model, options.runs); });
  }
  const int code = report.exit_code();
  return all ? code : 2;
}

}  // namespace
}  // namespace dtfm::kernels

int main(int argc, char** argv) {
  using namespace dtfm::kernels;
  Options options;
  if (!read_options({argv + 1, argv + argc}, options)) {
    print_usage();
    return 2;
  }
  if (!device_available()) {
    std::fputs("kernels_bench: no CUDA GPU or driver found\n", stderr);
    return 2;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels_bench: %s\n", error.what());
    return 2;
  }
}
