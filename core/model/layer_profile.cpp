#include "core/model/layer_profile.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm {
namespace {

Error missing_row_error(const LayerProfile& profile, std::string_view kind, int tensor) {
  std::set<std::string> has;
  for (const ProfileRow& row : profile.rows)
    has.insert(row.tensor == 1 ? row.kind : fmt::format("{} at degree {}", row.kind, row.tensor));
  return Error("",
               fmt::format("the profile of GPU {} has no layer `{}` for a tensor degree up to {}; it has {}",
                           profile.gpu, kind, tensor, fmt::join(has, ", ")));
}

/// Rows of the kind at the largest measured degree up to `tensor`, in ascending order of micro-batch.
std::vector<const ProfileRow*> nearest_rows(const LayerProfile& profile, std::string_view kind, int tensor) {
  std::vector<const ProfileRow*> rows;
  for (const ProfileRow& row : profile.rows) {
    if (row.kind != kind || row.tensor > tensor) continue;
    if (!rows.empty() && row.tensor < rows.back()->tensor) continue;
    if (!rows.empty() && row.tensor > rows.back()->tensor) rows.clear();
    rows.push_back(&row);
  }
  if (rows.empty()) throw missing_row_error(profile, kind, tensor);
  DTFM_ASSERT(std::is_sorted(rows.begin(), rows.end(), [](const ProfileRow* a, const ProfileRow* b) {
    return a->micro_batch <= b->micro_batch;
  }));
  return rows;
}

/// Interpolates or extrapolates the line through two points, but never below 0.
double interpolate_linearly(double x0, double y0, double x1, double y1, double x) {
  return std::max(0.0, y0 + (y1 - y0) * (x - x0) / (x1 - x0));
}

/// Interpolated quantile of `sorted`, which must not be empty; share 0 is the first element, 1 the last.
double quantile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
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
  const std::vector<const ProfileRow*> rows = nearest_rows(profile, kind, tensor);
  const ProfileRow &first = *rows.front(), &last = *rows.back();
  const double tensor_scale = static_cast<double>(first.tensor) / tensor;
  ProfiledTime time;
  time.includes_all_reduces = profile.includes_all_reduces && first.tensor > 1;
  if (first.update) time.update_s = first.update->median_s * tensor_scale;
  time.extrapolated =
      first.tensor != tensor || micro_batch < first.micro_batch || micro_batch > last.micro_batch;
  if (rows.size() == 1 || micro_batch < first.micro_batch) {
    const double share = tensor_scale * micro_batch / first.micro_batch;
    time.forward_s = first.forward.median_s * share;
    time.backward_s = first.backward.median_s * share;
    if (micro_batch != first.micro_batch) time.scaled_from = &first;
    return time;
  }
  std::size_t above = 1;
  while (above + 1 < rows.size() && rows[above]->micro_batch < micro_batch) ++above;
  const ProfileRow &a = *rows[above - 1], &b = *rows[above];
  time.forward_s = tensor_scale * interpolate_linearly(a.micro_batch, a.forward.median_s, b.micro_batch,
                                                       b.forward.median_s, micro_batch);
  time.backward_s = tensor_scale * interpolate_linearly(a.micro_batch, a.backward.median_s, b.micro_batch,
                                                        b.backward.median_s, micro_batch);
  return time;
}

}  // namespace dtfm
