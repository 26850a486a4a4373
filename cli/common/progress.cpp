#include "cli/common/progress.hpp"

#include <algorithm>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/common/print_error.hpp"
#include "cli/common/text_formatting.hpp"

namespace dtfm::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto live_interval = 100ms, line_interval = 2000ms;
constexpr int bar_width = 24;

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double share) {
  if (share < 0) return "";
  const int full = static_cast<int>(std::min(share, 1.0) * bar_width);
  return fmt::format("[{}{}] {:3.0f} %  ", std::string(static_cast<std::size_t>(full), '#'),
                     std::string(static_cast<std::size_t>(bar_width - full), '.'),
                     std::min(share, 1.0) * 100);
}

}  // namespace

std::string format_progress(const Progress& progress) {
  if (progress.simulated_s)
    return fmt::format("{} {}, {:.6g} s simulated", progress.what, progress.iteration, *progress.simulated_s);
  if (!progress.what.empty()) return std::string(progress.what);
  if (progress.evaluations == 0 && !progress.scheme.empty())
    return fmt::format("layouts of {}", progress.scheme);
  std::string text = with_thousands(progress.evaluations);
  if (progress.budget > 0) text += " of " + with_thousands(progress.budget);
  text += fmt::format(" evaluations, best {:.6g} s", progress.best);
  if (progress.lower_bound > 0)
    text += fmt::format(", bound {:.6g} s, gap {}", progress.lower_bound,
                        format_percent(relative_gap(progress.best, progress.lower_bound)));
  return text;
}

ProgressPrinter::ProgressPrinter(bool quiet, std::string_view program)
    : program_(program),
      quiet_(quiet),
      live_(::isatty(STDERR_FILENO) == 1),
      next_(Clock::now() + (live_ ? live_interval : line_interval)) {}

ProgressPrinter::~ProgressPrinter() {
  if (drawn_ && live_) print_error("\r\033[K");
}

void ProgressPrinter::show(const Progress& progress) {
  if (quiet_ || Clock::now() < next_) return;
  const double share = progress.budget > 0
                           ? static_cast<double>(progress.evaluations) / static_cast<double>(progress.budget)
                           : progress.share;
  const std::string text = format_progress(progress);
  if (live_)
    print_error("\r\033[K" + truncate_text(bar(share) + text, terminal_width() - 1));
  else
    print_error(fmt::format("{}: {}\n", program_, text));
  drawn_ = true;
  next_ = Clock::now() + (live_ ? live_interval : line_interval);
}

}  // namespace dtfm::cli
