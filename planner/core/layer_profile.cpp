#include "planner/core/layer_profile.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm {
namespace {

Error missing(const LayerProfile& profile, std::string_view kind) {
  std::set<std::string> kinds;
  for (const ProfileRow& row : profile.rows)
    if (row.tensor == 1) kinds.insert(row.kind);
  return Error("", fmt::format("the profile of GPU {} has no layer `{}` for tensor degree 1; it has {}",
                               profile.gpu, kind, fmt::join(kinds, ", ")));
}

ProfiledTime divided(ProfiledTime time, int tensor) {
  return {time.forward_s / tensor, time.backward_s / tensor, time.update_s / tensor, true};
}

/// On the line through two points.
double on_line(double x0, double y0, double x1, double y1, double x) {
  return std::max(0.0, y0 + (y1 - y0) * (x - x0) / (x1 - x0));
}

/// `sorted` is not empty; share 0 is the first of them, 1 the last, and between is in proportion.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

}  // namespace

Timing timing_of(std::vector<double> samples) {
  DTFM_ASSERT(!samples.empty());
  std::sort(samples.begin(), samples.end());
  return {quantile(samples, 0.5), quantile(samples, 0.9) - quantile(samples, 0.1)};
}

std::string_view name_of(LayerProfile::Source source) {
  constexpr std::string_view names[] = {"measured", "imported", "estimated"};
  return names[static_cast<int>(source)];
}

ProfiledTime profiled_time(const LayerProfile& profile, std::string_view kind, int micro_batch, int tensor) {
  std::vector<const ProfileRow*> rows;
  for (const ProfileRow& row : profile.rows)
    if (row.kind == kind && row.tensor == tensor) rows.push_back(&row);
  if (rows.empty() && tensor != 1) return divided(profiled_time(profile, kind, micro_batch, 1), tensor);
  if (rows.empty()) throw missing(profile, kind);
  DTFM_ASSERT(std::is_sorted(rows.begin(), rows.end(), [](const ProfileRow* a, const ProfileRow* b) {
    return a->micro_batch <= b->micro_batch;
  }));
  ProfiledTime time;
  time.update_s = rows.front()->update.median_s;
  time.extrapolated = micro_batch < rows.front()->micro_batch || micro_batch > rows.back()->micro_batch;
  if (rows.size() == 1) {
    const double share = static_cast<double>(micro_batch) / rows.front()->micro_batch;
    time.forward_s = rows.front()->forward.median_s * share;
    time.backward_s = rows.front()->backward.median_s * share;
    return time;
  }
  std::size_t above = 1;
  while (above + 1 < rows.size() && rows[above]->micro_batch < micro_batch) ++above;
  const ProfileRow &a = *rows[above - 1], &b = *rows[above];
  time.forward_s = on_line(a.micro_batch, a.forward.median_s, b.micro_batch, b.forward.median_s, micro_batch);
  time.backward_s =
      on_line(a.micro_batch, a.backward.median_s, b.micro_batch, b.backward.median_s, micro_batch);
  return time;
}

}  // namespace dtfm
