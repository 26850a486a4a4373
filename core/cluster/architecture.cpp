#include "core/cluster/architecture.hpp"

#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr auto architectures = std::to_array<ArchitectureTraits>({
    {.kind = Architecture::other, .name = "other"},
    {.kind = Architecture::volta, .name = "volta"},
    {.kind = Architecture::turing, .name = "turing"},
    {.kind = Architecture::ampere, .name = "ampere"},
    {.kind = Architecture::ada, .name = "ada"},
    {.kind = Architecture::hopper, .name = "hopper"},
    {.kind = Architecture::blackwell, .name = "blackwell"},
});
static_assert(has_row_for_each(architectures, Architecture::blackwell));

}  // namespace

std::span<const ArchitectureTraits> architecture_table() {
  return architectures;
}

std::string_view name_of(Architecture architecture) {
  return row_of(architectures, architecture).name;
}

}  // namespace dtfm
