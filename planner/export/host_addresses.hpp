// Maps device ids of a plan to machines, their addresses and GPU indices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/export/export_bundle.hpp"
#include "core/io/text/named_file.hpp"

namespace dtfm::exporter {

/// The locations of the devices `ids`: `ga:1` is GPU 1 of machine ga, `gb` is GPU 0 of machine gb. Addresses
/// come from `hosts`, with one line `MACHINE ADDRESS` each and comments after #; without `hosts`, an address
/// is the machine's name with / replaced by -. Only the first `used` ids need an address.
///
/// Addresses become part of scripts, so they consist of letters, digits and . _ - and begin with a letter or
/// digit. Throws Error for an invalid address, for two machines with the same address and for two ids of the
/// same GPU; with file:line:column for a machine that is in `hosts` twice or not in the plan; and for a
/// machine that is missing from `hosts`.
std::vector<GpuLocation> locate_gpus(const std::vector<std::string>& ids, std::size_t used,
                                     const std::optional<io::NamedFile>& hosts, const std::string& plan_file);

}  // namespace dtfm::exporter
