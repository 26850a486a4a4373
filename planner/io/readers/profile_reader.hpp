// Profiles of layers, schema dtfm-profile/1 (configs/profiles/README.md).
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/layer_profile.hpp"
#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// Throws Error at file:line:column for what is missing, misspelt, negative or given twice.
LayerProfile read_profile(const std::filesystem::path& file);
LayerProfile parse_profile(std::string text, std::string file);
LayerProfile read_profile(const YamlValue& value);

/// Reads back as the same profile.
nlohmann::ordered_json profile_json(const LayerProfile& profile);

}  // namespace dtfm::io
