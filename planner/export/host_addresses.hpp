// Where the machines of a plan are: which GPU a device id means, and by what name its machine is known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/export/export_bundle.hpp"
#include "planner/io/text/named_file.hpp"

namespace dtfm::exporter {

/// The places of the devices called `ids`: `ga:1` is GPU 1 of machine ga, `gb` the only one of gb. Addresses
/// are those in `hosts`, a line `MACHINE ADDRESS` each, what follows # being a comment; without it the
/// machines' names with - in place of /. `used`: how many ids, from the first on, must have one.
///
/// An address is made of letters, digits and . _ - and begins with a letter or digit: it goes into scripts.
/// Throws Error for one that is none, for two machines of one address, for two ids of one GPU; at
/// file:line:column for a machine that `hosts` has twice, or that the plan does not know; and for one that
/// `hosts` lacks.
std::vector<GpuLocation> locate_gpus(const std::vector<std::string>& ids, std::size_t used,
                                 const std::optional<io::NamedFile>& hosts, const std::string& plan_file);

}  // namespace dtfm::exporter
