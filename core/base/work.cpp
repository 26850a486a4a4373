#include "core/base/work.hpp"

#include <algorithm>

namespace dtfm {

Work until_time_limit(Work work, double grace_s) {
  if (!work.time_limit) return work;
  const auto seconds = [](double count) {
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(count));
  };
  const auto end = std::max(work.begin.value_or(now_of(work.ranks)) + seconds(*work.time_limit),
                            now_of(work.ranks) + seconds(grace_s));
  work.stop = [stop = std::move(work.stop), ranks = work.ranks, end] {
    return is_stopped(stop) || now_of(ranks) >= end;
  };
  return work;
}

}  // namespace dtfm
