// Functions that several schemes share.
#pragma once

#include <optional>
#include <string>

#include "planner/api/schemes/scheme.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::api {

/// Sets these decisions in job and plan, and removes settings that only other schedules have.
void set_decisions(Layout& layout, int tensor, Schedule schedule,
                   GradientSync gradient_sync = GradientSync::ring);

/// One stage with all layers on each of `devices`, micro-batches split as evenly as possible, and schedule
/// 1F1B, which computes one micro-batch after another here. Gradients are synchronized in a ring.
Layout replicate(const Problem& problem, const std::vector<int>& devices, int micro_batch);

/// Memory of the device's GPU in bytes; empty if unknown.
std::optional<double> memory_of(const Topology& topology, int device);
/// Peak bytes of a device that holds one micro-batch.
double needed_bytes(const sim::StageLoad& load);
/// Number of micro-batches that fit in the memory of a device, below 1 if the stage itself does not fit;
/// empty if there is no limit.
std::optional<double> max_in_flight(const Topology& topology, int device, const sim::StageLoad& load);
/// The deficit of a device that exceeds its memory.
struct MemoryDeficit {
  double ratio = 0;  // needed memory ÷ available memory
  std::string text;  // "oregon/3 needs 22.2 GB of 16.0"
};
MemoryDeficit memory_deficit(const Topology& topology, int device, double needed, double memory);
/// Replaces `smallest` by `deficit` if `deficit` is smaller or `smallest` is empty.
void keep_smallest(std::optional<MemoryDeficit>& smallest, const MemoryDeficit& deficit);

}  // namespace dtfm::api
