// The part of a topology file that says what lies between the machines: key `links`.
#pragma once

#include "planner/core/topology.hpp"
#include "planner/io/readers/device_inventory.hpp"
#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// An entry is for one of
///   within: host | SITE | "*"        two devices of one host, of that site, of any one site
///   between: [END, END]              both directions
///   from: END, to: END               one direction
/// where END is a device, a host, a site or "*" (any device, of the same site as well). Of the entries that a
/// pair of devices matches, the first in this order counts, whatever their order in the file:
///    1 device – device        5 host – host      8 host – *                        10 within: "*"
///    2 device – host          6 within: host     9 site – site, within: SITE       11 site – *
///    3 device – site          7 host – site                                        12 * – *
///    4 device – *
/// and in each of these one direction before both directions. (The only GPU of a host is a device and not a
/// host here.) Two entries of one place for one pair of devices, where no better entry decides, are an Error,
/// as is a pair without any entry, and as are two capacities of one pair of sites and direction: `capacity`
/// is what all its flows from host to host share, also those whose entry gives none. `egress: 0.09 USD/GB` is
/// what the sender pays for what it sends over the entry; nothing where it is not given.
RuleLinks read_link_rules(const YamlValue& links, const DeviceInventory& inventory);

}  // namespace dtfm::io
