// Reads the links between the devices of a topology file: key `links`, and those of known hosts.
#pragma once

#include "core/cluster/topology.hpp"
#include "core/io/readers/device_inventory.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// Each entry applies to one of
///   within: host | SITE | "*"        two devices of one host, of that site, of any one site
///   between: [END, END]              both directions
///   from: END, to: END               one direction
/// where END is a device, a host, a site or "*" (any device, including those of the same site). If several
/// entries match a pair of devices, the first in the following order applies, regardless of their order in
/// the file:
///    1 device – device        5 host – host      8 host – *                        10 within: "*"
///    2 device – host          6 within: host     9 site – site, within: SITE       11 site – *
///    3 device – site          7 host – site                                        12 * – *
///    4 device – *
/// Within each of these, entries for one direction precede entries for both. (The only GPU of a host counts
/// as a device, not as a host.) Links that known hosts bring along (TemplateLinks) apply directly after 6,
/// inside the host, and directly after 10, between two such hosts of a site. Throws Error if two entries of
/// equal precedence match a pair of devices and no entry of higher precedence does, if a pair has no entry,
/// and if one direction between two sites has two different capacities: `capacity` is shared by all flows
/// between hosts of the two sites in that direction, including those whose entry gives none. `egress: 0.09
/// USD/GB` is what the sender pays for data sent over the link; the default is free.
///
/// `topology` may lack `links` if there is one device, or if known hosts bring all links along.
RuleLinks read_link_rules(const YamlMap& topology, const DeviceInventory& inventory);

}  // namespace dtfm::io
