// Keys of results for rates and costs, which name what they count: tokens, or images.
#pragma once

#include <string>

#include <fmt/format.h>

#include "core/model/model.hpp"

namespace dtfm::io {

/// `tokens_per_s` or `images_per_s`
inline std::string rate_key(ModelInput input) {
  return fmt::format("{}_per_s", name_of(input));
}

/// `cost_per_million_tokens` or `cost_per_million_images`
inline std::string cost_key(ModelInput input) {
  return fmt::format("cost_per_million_{}", name_of(input));
}

}  // namespace dtfm::io
