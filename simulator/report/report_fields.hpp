// The members of simulation results, for ByteCodec.
#pragma once

#include "core/base/byte_codec.hpp"
#include "simulator/report/sim_report.hpp"

namespace dtfm::sim {

auto fields(MaybeConst<IterationReport> auto& it) {
  auto& [start_s, end_s] = it;
  return std::tie(start_s, end_s);
}

auto fields(MaybeConst<DeviceReport> auto& it) {
  auto& [device, compute_s, waiting_network_s, waiting_others_s, down_s, sending_s, receiving_s,
         peak_memory_bytes, memory_bytes] = it;
  return std::tie(device, compute_s, waiting_network_s, waiting_others_s, down_s, sending_s, receiving_s,
                  peak_memory_bytes, memory_bytes);
}

auto fields(MaybeConst<LinkReport> auto& it) {
  auto& [from, to, bytes, busy_s] = it;
  return std::tie(from, to, bytes, busy_s);
}

auto fields(MaybeConst<CriticalStep> auto& it) {
  auto& [text, tasks, start_s, end_s] = it;
  return std::tie(text, tasks, start_s, end_s);
}

auto fields(MaybeConst<EventReport> auto& it) {
  auto& [date_s, text] = it;
  return std::tie(date_s, text);
}

auto fields(MaybeConst<UsefulWork> auto& it) {
  auto& [samples, samples_per_s, optimal_samples, share_of_optimal, usd_egress, usd] = it;
  return std::tie(samples, samples_per_s, optimal_samples, share_of_optimal, usd_egress, usd);
}

auto fields(MaybeConst<CaughtPeer> auto& it) {
  auto& [device, date_s, calls, samples] = it;
  return std::tie(device, date_s, calls, samples);
}

auto fields(MaybeConst<VerificationReport> auto& it) {
  auto& [verified, unverified, compute_s, bytes, corrupt_calls, caught] = it;
  return std::tie(verified, unverified, compute_s, bytes, corrupt_calls, caught);
}

auto fields(MaybeConst<Distribution> auto& it) {
  auto& [mean, p50, p95, p99, min, max] = it;
  return std::tie(mean, p50, p95, p99, min, max);
}

auto fields(MaybeConst<SimReport> auto& it) {
  auto& [length_s, iterations, iteration_time_s, tokens_per_s, model_flops_per_s, peak_flops_per_s, bubble,
         devices, links, events, lost_work_s, rolled_back, checkpoints, verification, useful, critical_path,
         out_of_memory, stopped, deadlocked, tasks, events_handled, flows] = it;
  return std::tie(length_s, iterations, iteration_time_s, tokens_per_s, model_flops_per_s, peak_flops_per_s,
                  bubble, devices, links, events, lost_work_s, rolled_back, checkpoints, verification, useful,
                  critical_path, out_of_memory, stopped, deadlocked, tasks, events_handled, flows);
}

}  // namespace dtfm::sim
