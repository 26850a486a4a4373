// What layouts of several schemes have in common.
#pragma once

#include <optional>
#include <string>

#include "planner/api/schemes/scheme.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::api {

/// Takes these decisions in job and plan, and leaves out what only other schedules have.
void set_decisions(Layout& layout, int tensor, Schedule schedule, GradientSync gradient_sync);

/// One stage with all layers on each of `devices`, micro-batches split as evenly as possible; 1F1B, which
/// here is one micro-batch after the other.
Layout replicate(const Problem& problem, const std::vector<int>& devices, int micro_batch,
                 GradientSync gradient_sync);

/// Of the device's GPU, bytes; nothing: not known.
std::optional<double> memory_of(const Topology& topology, int device);
/// That a device holds with one micro-batch, at most.
double needed_bytes(const sim::StageLoad& load);
/// Micro-batches that the memory of a device has room for, below 1 where it does not hold the stage; nothing:
/// any number.
std::optional<double> max_in_flight(const Topology& topology, int device, const sim::StageLoad& load);
/// That a device has too little memory.
struct MemoryDeficit {
  double ratio = 0;  // what it needs ÷ what there is
  std::string text;  // "oregon/3 needs 22.2 GB of 16.0"
};
MemoryDeficit memory_deficit(const Topology& topology, int device, double needed, double memory);
/// Of what stands in the way of several layouts, what is nearest to none: the least lack, before anything
/// else.
void keep_smallest(std::optional<MemoryDeficit>& smallest, const MemoryDeficit& deficit);

}  // namespace dtfm::api
