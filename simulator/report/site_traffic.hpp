// What goes from site to site.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "simulator/report/sim_report.hpp"
#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

class SiteTraffic : public RunObserver {
 public:
  /// The site of each device.
  explicit SiteTraffic(std::vector<int> site_of_device) : site_(std::move(site_of_device)) {}
  void on_interval(const RunInterval& run_interval) override;
  /// Of each ordered pair of sites (of a site with itself too) that had a message: the bytes of those that
  /// arrived, and for how long at least one was under way. The most bytes first, then by site.
  std::vector<LinkReport> reports() const;

 private:
  struct Use {
    double bytes = 0, busy_s = 0;
  };
  std::vector<int> site_;
  std::map<std::pair<int, int>, Use> uses_;
};

}  // namespace dtfm::sim
