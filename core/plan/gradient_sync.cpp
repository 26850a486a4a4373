#include "core/plan/gradient_sync.hpp"

#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr auto gradient_syncs = std::to_array<GradientSyncTraits>({
    {.kind = GradientSync::sharded_ps,
     .name = "sharded-ps",
     .in_jobs = true,
     .is_candidate = true,
     .has_halves = true},
    {.kind = GradientSync::central_ps, .name = "central-ps", .in_jobs = true, .is_ordered = true},
    {.kind = GradientSync::ring,
     .name = "ring",
     .in_jobs = true,
     .is_candidate = true,
     .is_ordered = true,
     .uses_channels = true,
     .has_halves = true},
    {.kind = GradientSync::tree, .name = "tree", .in_jobs = true, .is_candidate = true, .is_ordered = true},
    {.kind = GradientSync::hierarchical,
     .name = "hierarchical",
     .in_jobs = true,
     .is_candidate = true,
     .is_ordered = true,
     .has_halves = true},
    {.kind = GradientSync::none, .name = "none"},
});
static_assert(has_row_for_each(gradient_syncs, GradientSync::none));

}  // namespace

std::span<const GradientSyncTraits> gradient_sync_table() {
  return gradient_syncs;
}

const GradientSyncTraits& traits(GradientSync sync) {
  return row_of(gradient_syncs, sync);
}

std::string_view name_of(GradientSync sync) {
  return traits(sync).name;
}

}  // namespace dtfm
