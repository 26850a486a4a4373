#include "core/cluster/link_classes.hpp"

#include "core/base/index.hpp"

namespace dtfm {
namespace {

class LinkClasses {
 public:
  LinkClasses(const MeasuredLinks& links, const std::vector<Device>& devices)
      : links_(links), devices_(devices) {}

  std::optional<RuleLinks> rules() {
    const int devices = static_cast<int>(devices_.size());
    for (int device = 0; device < devices; ++device) {
      int number = 0;
      while (at(number) < first_.size() && !are_equivalent(device, first_[at(number)])) ++number;
      if (at(number) == first_.size()) first_.push_back(device);
      if (2 * first_.size() > devices_.size()) return std::nullopt;
      rules_.link_class.push_back(number);
    }
    rules_.table.setConstant(std::ssize(first_), std::ssize(first_), -1);
    rules_.same_host = rules_.table;
    for (int to = 0; to < devices; ++to)
      for (int from = 0; from < devices; ++from)
        if (from != to && !set_link(from, to)) return std::nullopt;
    return rules_;
  }

 private:
  bool are_equal(int from, int to, int other_from, int other_to) const {
    return links_.latency(from, to) == links_.latency(other_from, other_to) &&
           links_.bandwidth(from, to) == links_.bandwidth(other_from, other_to);
  }

  bool are_equivalent(int device, int other) const {
    if (devices_[at(device)].site != devices_[at(other)].site) return false;
    const int hosts[] = {devices_[at(device)].host, devices_[at(other)].host};
    for (int third = 0; at(third) < devices_.size(); ++third) {
      const int host = devices_[at(third)].host;
      if (host == hosts[0] || host == hosts[1]) continue;
      if (!are_equal(third, device, third, other) || !are_equal(device, third, other, third)) return false;
    }
    return true;
  }

  /// Returns false if the link differs from another one between the same classes.
  bool set_link(int from, int to) {
    const bool is_inside = devices_[at(from)].host == devices_[at(to)].host;
    int& number =
        (is_inside ? rules_.same_host : rules_.table)(rules_.link_class[at(from)], rules_.link_class[at(to)]);
    const Seconds latency(links_.latency(from, to));
    const BitsPerSecond bandwidth(links_.bandwidth(from, to));
    if (number >= 0) {
      const Link& known = rules_.links[at(number)];
      return known.latency == latency && known.bandwidth == bandwidth;
    }
    number = static_cast<int>(rules_.links.size());
    rules_.links.push_back({latency, bandwidth});
    return true;
  }

  const MeasuredLinks& links_;
  const std::vector<Device>& devices_;
  std::vector<int> first_;  // device of each class
  RuleLinks rules_;
};

}  // namespace

std::optional<RuleLinks> rules_of(const MeasuredLinks& links, const std::vector<Device>& devices) {
  return LinkClasses(links, devices).rules();
}

}  // namespace dtfm
