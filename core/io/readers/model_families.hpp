// The families of models whose config.json is understood: the table configs/model-families.yaml.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace dtfm::io {

/// How the layers of a family are built.
enum class FamilyForm { decoder, t5, umt5, vit };

struct ModelFamily {
  std::vector<std::string> types;  // values of `model_type`; the first is that of transformers
  FamilyForm form = FamilyForm::decoder;
  nlohmann::json defaults;  // by key of config.json, what transformers assumes if the key is missing
  std::map<std::string, std::vector<std::string>> keys;             // key of config.json → what it sets
  nlohmann::ordered_json model = nlohmann::ordered_json::object();  // keys of a job's transformer
  /// Rows of a position table beyond those that the file gives; negative: rows of the file that no token has.
  int position_offset = 0;
  /// By key of config.json and its value as text, in the order of the table: keys of a job's transformer and
  /// further cases under `when`, or the text `unsupported`.
  nlohmann::ordered_json when = nlohmann::ordered_json::object();
};

struct ModelFamilies {
  std::vector<ModelFamily> families;
  std::map<std::string, std::vector<std::string>> keys;  // of all families
  std::vector<std::string> ignored;                      // names or patterns of keys without effect on costs
};

/// The table, which is compiled in.
const ModelFamilies& model_families();

/// The family of a `model_type`, or else of the class that `architectures` names; nullptr if unknown.
const ModelFamily* find_family(std::string_view type, std::string_view architecture);

/// Whether a key of config.json has no effect on parameters, operations and sizes.
bool is_ignored(std::string_view key);

}  // namespace dtfm::io
