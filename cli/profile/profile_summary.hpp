// Text of profiles, and of the GPU catalogue.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/layer_profile.hpp"
#include "planner/core/model.hpp"
#include "planner/core/topology.hpp"

namespace dtfm::cli {

struct ProfileSummary {
  const LayerProfile& profile;
  std::optional<Model> model;  // if not given, FLOPs are unknown
  std::span<const Gpu> catalogue;
};

/// A title with notes, a table of the times and, if known, a table of the memory.
std::string format_summary(const ProfileSummary& summary);

std::string catalogue_text(std::span<const Gpu> catalogue);
nlohmann::ordered_json catalogue_json(std::span<const Gpu> catalogue);

}  // namespace dtfm::cli
