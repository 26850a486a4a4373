#include "core/io/text/renamed_keys.hpp"

#include <algorithm>
#include <array>

namespace dtfm::io {
namespace {

struct RenamedKey {
  std::string_view parent, old_name, new_name;
};

// A row can be deleted one release after the rename.
constexpr std::array table{
    RenamedKey{"parallelism", "alike", "uniform_pipelines"},
    RenamedKey{"compression", "adaptive", "bandwidth_threshold"},
};

}  // namespace

std::string_view renamed_key(std::string_view parent, std::string_view key) {
  const auto* row = std::find_if(table.begin(), table.end(), [&](const RenamedKey& it) {
    return it.parent == parent && it.old_name == key;
  });
  return row == table.end() ? std::string_view() : row->new_name;
}

}  // namespace dtfm::io
