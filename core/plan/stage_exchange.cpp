#include "core/plan/stage_exchange.hpp"

#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr auto exchanges = std::to_array<ContextExchangeTraits>({
    {ContextExchange::ring, "ring", true, false},
    {ContextExchange::all_gather, "all-gather", false, false},
    {ContextExchange::all_to_all, "all-to-all", false, true},
});
static_assert(has_row_for_each(exchanges, ContextExchange::all_to_all));

constexpr auto dispatches = std::to_array<ExpertDispatchTraits>({
    {ExpertDispatch::flat, "flat"},
    {ExpertDispatch::hierarchical, "hierarchical"},
});
static_assert(has_row_for_each(dispatches, ExpertDispatch::hierarchical));

}  // namespace

std::span<const ContextExchangeTraits> context_exchange_table() {
  return exchanges;
}

const ContextExchangeTraits& traits(ContextExchange exchange) {
  return row_of(exchanges, exchange);
}

std::string_view name_of(ContextExchange exchange) {
  return traits(exchange).name;
}

std::span<const ExpertDispatchTraits> expert_dispatch_table() {
  return dispatches;
}

std::string_view name_of(ExpertDispatch dispatch) {
  return row_of(dispatches, dispatch).name;
}

}  // namespace dtfm
