// Moves of annealing.
#pragma once

#include "core/base/rng.hpp"
#include "planner/search/iteration_time/editable_plan.hpp"

namespace dtfm::search {

/// Makes a random move: swaps two groups, one with an unused one, one for one near a neighbour, the tails of
/// two pipelines, or two stages of all pipelines; shifts a layer over a boundary of all pipelines or of one;
/// shifts micro-batches between pipelines; with mixed degrees, halves or doubles the devices of a stage. Not
/// every move is possible.
void make_random_move(EditablePlan& plan, Rng& rng);

}  // namespace dtfm::search
