// The library interface of the planner and simulator. Every request is a struct with a problem (topology, job
// and constants), options with defaults, and callbacks for progress and cancellation; every result is a
// struct of numbers and plans. Nothing here prints, reads or writes files: core/io/readers reads
// topologies and jobs, simulator/io reads scenarios, planner/io makes the documents of plans, Pareto fronts,
// simulations, comparisons and calibrations. Bad input throws dtfm::Error.
//
// - plan: searches for the best plan and says what is known about it (dtfm-plan).
// - score: estimates and simulates a given plan (dtfm-plan --score).
// - find_plans: the part of these that searches by iteration time, by itself.
// - simulate: simulates a plan or a scheme under a scenario (dtfm-sim).
// - compare: plans and simulates every scheme (dtfm-compare).
// - calibrate: fits the constants of the simulator to measured iterations (dtfm-calibrate).
// - compare_plans: how two plans differ, and the state migration between them (dtfm-plan --diff).
// - make_replanner: plans anew when devices fail or join (policy replan).
#pragma once

#include "planner/api/calibrate.hpp"
#include "planner/api/comm_cost.hpp"
#include "planner/api/compare.hpp"
#include "planner/api/pareto.hpp"
#include "planner/api/plan.hpp"
#include "planner/api/plan_diff.hpp"
#include "planner/api/plan_estimate.hpp"
#include "planner/api/replanner.hpp"
#include "planner/api/simulate.hpp"
#include "planner/api/warm_start.hpp"
