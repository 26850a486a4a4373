// Text of profiles, and of the GPU catalogue.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/model/layer_profile.hpp"
#include "core/model/model.hpp"
#include "core/cluster/topology.hpp"

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
