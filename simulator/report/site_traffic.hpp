// Traffic between sites.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "core/base/intervals.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/sim_report.hpp"

namespace dtfm::sim {

class SiteTraffic : public RunObserver {
 public:
  /// `site_of_device`: [device].
  explicit SiteTraffic(std::vector<int> site_of_device) : site_(std::move(site_of_device)) {}
  void on_interval(const RunInterval& run_interval) override;
  bool counts_repetitions() const override { return true; }
  /// The traffic of each ordered pair of sites with at least one message (including messages within a site):
  /// bytes of the messages that arrived, and seconds in which at least one was in transit. The pair with the
  /// most bytes comes first; ties are ordered by site.
  std::vector<LinkReport> reports() const;

 private:
  struct Use {
    double bytes = 0;
    UnionLength busy;
  };
  std::vector<int> site_;
  std::map<std::pair<int, int>, Use> uses_;
};

}  // namespace dtfm::sim
