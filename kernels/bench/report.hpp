// The table that the benchmark prints row by row, with the targets that were met.
#pragma once

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/timing.hpp"

namespace dtfm::kernels {

class Report {
 public:
  /// `checks_targets`: compare with the targets. Without it, on a device where the targets mean nothing, only
  /// times are printed.
  ///
  /// The rows are also written to `rows_file`, unless it is empty, as tab-separated text: model, sequences,
  /// kernel, seconds. Throws std::runtime_error if it cannot be written.
  explicit Report(bool checks_targets, const std::string& rows_file = {}) : checks_targets_(checks_targets) {
    if (rows_file.empty()) return;
    rows_.open(rows_file, std::ios::binary);
    rows_ << "model\tsequences\tkernel\tseconds\n";
    if (!rows_) throw std::runtime_error("cannot write " + rows_file);
  }

  /// Sets the model and the number of sequences of the rows that follow.
  void model(const std::string& name, int sequences) {
    model_ = name + '\t' + std::to_string(sequences) + '\t';
  }

  void title(const std::string& text) const {
    std::printf("\n%s\n%-34s %11s %7s %10s %10s  %s\n", text.c_str(), "kernel", "time", "spread", "rate",
                "share", "target");
  }

  /// Reports a memory-bound kernel against a copy that moves as many bytes; the target is 80 % of its speed.
  /// `copy_seconds` 0 means no target, for copies themselves.
  void bandwidth(const std::string& what, const Times& times, double bytes, double copy_seconds) {
    line(what, times, bytes / times.seconds / 1e9, "GB/s", copy_seconds / times.seconds,
         copy_seconds > 0 ? 0.8 : 0);
  }

  /// Reports a compute-bound kernel against cuBLAS at the same shapes. `target` 0 means no target, for cuBLAS
  /// itself.
  void arithmetic(const std::string& what, const Times& times, double flops, double reference_rate,
                  double target) {
    const double rate = flops / times.seconds;
    line(what, times, rate / 1e12, "TFLOP/s", reference_rate > 0 ? rate / reference_rate : 0, target);
  }

  /// Checks that medians of the same work are within 2 % of each other.
  void repeated(const std::string& what, const std::vector<double>& seconds) {
    const auto [min, max] = std::minmax_element(seconds.begin(), seconds.end());
    const double difference = *max / *min - 1;
    std::printf("%-34s %8.4f to %.4f ms, %.1f %% apart  %s\n", what.c_str(), *min * 1e3, *max * 1e3,
                difference * 100, verdict(difference <= 0.02, "2 %").c_str());
  }

  int exit_code() const {
    if (checks_targets_) std::printf("\n%d of %d targets met\n", targets_ - missed_, targets_);
    return missed_ == 0 ? 0 : 1;
  }

 private:
  std::string verdict(bool met, const char* target) {
    if (!checks_targets_) return "";
    ++targets_;
    if (!met) ++missed_;
    return std::string(met ? "met " : "MISSED ") + target;
  }

  void line(const std::string& what, const Times& times, double rate, const char* unit, double share,
            double target) {
    std::printf("%-34s %8.4f ms %5.1f %%", what.c_str(), times.seconds * 1e3, times.spread * 100);
    if (rate > 0) std::printf(" %8.1f %-7s", rate, unit);
    if (share > 0) std::printf(" %6.1f %%", share * 100);
    char goal[16];
    std::snprintf(goal, sizeof goal, "%.0f %%", target * 100);
    std::printf("  %s\n", target > 0 ? verdict(share >= target, goal).c_str() : "");
    std::fflush(stdout);
    rows_ << model_ << what << '\t' << times.seconds << '\n' << std::flush;
  }

  bool checks_targets_;
  std::ofstream rows_;  // open only if a file was requested
  std::string model_ = "\t\t";
  int targets_ = 0, missed_ = 0;
};

}  // namespace dtfm::kernels
