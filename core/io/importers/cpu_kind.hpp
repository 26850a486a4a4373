// Parses the vendor and the model of a host's CPU from `lscpu`; they determine the bandwidth between NUMA
// nodes.
#pragma once

#include <string>

namespace dtfm::io {

struct CpuKind {
  std::string vendor;  // "GenuineIntel"
  int model = 0;       // of its family
};

/// The output of lscpu in English, of any version. Throws Error at `where` for text without vendor or model.
CpuKind parse_lscpu(const std::string& text, const std::string& where);

}  // namespace dtfm::io
