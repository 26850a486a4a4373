// The published cases: topologies shipped with the program, with the volumes of GPT-3 XL on 8 × 8 devices.
#pragma once

#include <filesystem>
#include <string>

#include "planner/cost/comm_cost/comm_cost.hpp"
#include "core/io/readers/topology_reader.hpp"

namespace dtfm {
using namespace cost;
using namespace io;

inline CommCostModel shipped_model(const std::string& name) {
  const auto file = std::filesystem::path(DTFM_SOURCE_DIR) / "topologies" / (name + ".yaml");
  return comm_cost_model(read_topology(file), {Bytes(0.65e9), Bytes(0.47124922275543213e9)}, 8, 8);
}

}  // namespace dtfm
