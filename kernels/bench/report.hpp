// The table that the benchmark prints row by row, with the bars that were reached.
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
  /// `checks_bars`: compare with the bars. Without it, on a device where the bars mean nothing, only times
  /// are printed.
  /// `rows_file`, if not empty, gets the rows as tab-separated text: model, sequences, kernel, seconds.
  /// Throws std::runtime_error if it cannot be written.
  explicit Report(bool checks_bars, const std::string& rows_file = {}) : checks_bars_(checks_bars) {
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
                "share", "bar");
  }

  /// Reports a memory-bound kernel against a copy that moves as many bytes; the bar is 80 % of its speed.
  /// `copy_seconds` 0 means no bar, for copies themselves.
  void bandwidth(const std::string& what, const Times& times, double bytes, double copy_seconds) {
    line(what, times, bytes / times.seconds / 1e9, "GB/s", copy_seconds / times.seconds,
         copy_seconds > 0 ? 0.8 : 0);
  }

  /// Reports a compute-bound kernel against cuBLAS at the same shapes. `bar` 0 means no bar, for cuBLAS
  /// itself.
  void arithmetic(const std::string& what, const Times& times, double flops, double reference_rate,
                  double bar) {
    const double rate = flops / times.seconds;
    line(what, times, rate / 1e12, "TFLOP/s", reference_rate > 0 ? rate / reference_rate : 0, bar);
  }

  /// Checks that medians of the same work are within 2 % of each other.
  void repeated(const std::string& what, const std::vector<double>& seconds) {
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    const double difference = *most / *least - 1;
    std::printf("%-34s %8.4f to %.4f ms, %.1f %% apart  %s\n", what.c_str(), *least * 1e3, *most * 1e3,
                difference * 100, verdict(difference <= 0.02, "2 %").c_str());
  }

  int exit_code() const {
    if (checks_bars_) std::printf("\n%d of %d bars reached\n", bars_ - missed_, bars_);
    return missed_ == 0 ? 0 : 1;
  }

 private:
  std::string verdict(bool reached, const char* bar) {
    if (!checks_bars_) return "";
    ++bars_;
    if (!reached) ++missed_;
    return std::string(reached ? "reached " : "MISSED ") + bar;
  }

  void line(const std::string& what, const Times& times, double rate, const char* unit, double share,
            double bar) {
    std::printf("%-34s %8.4f ms %5.1f %%", what.c_str(), times.seconds * 1e3, times.spread * 100);
    if (rate > 0) std::printf(" %8.1f %-7s", rate, unit);
    if (share > 0) std::printf(" %6.1f %%", share * 100);
    char goal[16];
    std::snprintf(goal, sizeof goal, "%.0f %%", bar * 100);
    std::printf("  %s\n", bar > 0 ? verdict(share >= bar, goal).c_str() : "");
    std::fflush(stdout);
    rows_ << model_ << what << '\t' << times.seconds << '\n' << std::flush;
  }

  bool checks_bars_;
  std::ofstream rows_;  // not open: no file
  std::string model_ = "\t\t";
  int bars_ = 0, missed_ = 0;
};

}  // namespace dtfm::kernels
