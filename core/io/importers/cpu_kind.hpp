// Parses what `lscpu` says about the kind of CPU of a host, on which the rate between NUMA nodes depends.
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
