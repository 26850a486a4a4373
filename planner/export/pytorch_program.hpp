// program.json: what every rank of the PyTorch runtime (python/dtfm_runtime) computes, sends and
// synchronizes.
#pragma once

#include <string>

#include "planner/export/export_bundle.hpp"

namespace dtfm::exporter {

inline constexpr const char* program_file = "program.json";

/// The program of a bundle whose plan the runtime can run (schema dtfm-program/2). Orders of computations are
/// those of the simulator (operation_order), and so are groups of synchronized layers and their messages
/// (collective_messages). Throws NotRunnable if a decision depends on the network and the bundle has no
/// topology: the sites of `hierarchical`, and which links are slow enough for compression.
std::string program_json(const ExportBundle& bundle);

}  // namespace dtfm::exporter
