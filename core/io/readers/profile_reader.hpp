// Reads and writes layer profiles, schema dtfm-profile/1 (docs/files/profile.md).
#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/model/layer_profile.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// Throw Error at file:line:column for missing or unknown keys, negative values and duplicate rows.
LayerProfile read_profile(const std::filesystem::path& file);
LayerProfile parse_profile(std::string text, std::string file);
LayerProfile read_profile(const YamlValue& value);

/// JSON that read_profile reads back as the same profile.
nlohmann::ordered_json profile_json(const LayerProfile& profile);

}  // namespace dtfm::io
