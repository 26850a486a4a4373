// Devices that measured links do not distinguish.
#pragma once

#include <optional>

#include "core/cluster/topology.hpp"

namespace dtfm {

/// The same links as rules between classes of devices, so that estimates and simulations recognize
/// interchangeable devices. Nothing if that takes more than half as many classes as devices. Two devices of
/// one site are of one class if their links to every device on a third host are equal. Takes O(c n²) time for
/// n devices in c classes.
std::optional<RuleLinks> rules_of(const MeasuredLinks& links, const std::vector<Device>& devices);

}  // namespace dtfm
