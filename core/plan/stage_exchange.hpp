// How the devices of a stage send each other what attention and experts need.
#pragma once

#include <span>
#include <string_view>

namespace dtfm {

/// How context-parallel groups, each with some tokens of a sequence, compute attention.
enum class ContextExchange : unsigned char { ring, all_gather, all_to_all };

struct ContextExchangeTraits {
  ContextExchange kind;
  std::string_view name;  // in jobs
  bool overlaps;          // messages overlap with the computation of attention
  bool divides_heads;     // each device computes some heads, of all tokens
};

/// A row for each value, in the order of the enum.
std::span<const ContextExchangeTraits> context_exchange_table();
const ContextExchangeTraits& traits(ContextExchange exchange);
std::string_view name_of(ContextExchange exchange);

/// How devices that divide experts send tokens to them.
enum class ExpertDispatch : unsigned char { flat, hierarchical };

struct ExpertDispatchTraits {
  ExpertDispatch kind;
  std::string_view name;  // in jobs
};

std::span<const ExpertDispatchTraits> expert_dispatch_table();
std::string_view name_of(ExpertDispatch dispatch);

}  // namespace dtfm
