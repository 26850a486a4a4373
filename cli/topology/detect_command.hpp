// The command dtfm-topology detect.
#pragma once

#include <string>

#include "cli/topology/detect_options.hpp"
#include "core/base/stop.hpp"

namespace dtfm::cli {

/// Detects hosts and returns the text of a topology named `name`. Throws Error, and WorkStopped.
std::string detect_topology(const DetectOptions& options, const std::string& name, bool quiet,
                            const StopFunction& stop);

}  // namespace dtfm::cli
