#include "simulator/io/swarm_json.hpp"

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/io/writers/rate_keys.hpp"

namespace dtfm::io {

using nlohmann::ordered_json;

namespace {

ordered_json stage_json(const sim::SwarmStage& it) {
  return {{"layers", {it.layers.first, it.layers.second}},
          {"peers", it.peers},
          {"steps", it.steps},
          {"accepted_samples", it.accepted},
          {"held_samples", it.held},
          {"lost_samples", it.lost},
          {"blocked_s", it.blocked_s}};
}

}  // namespace

ordered_json swarm_json(const SwarmRecord& record, ModelInput input) {
  const sim::SwarmReport& report = record.report;
  ordered_json stages = ordered_json::array();
  for (const sim::SwarmStage& it : report.stages) stages.push_back(stage_json(it));
  const auto& cost = record.usd_per_million_tokens;
  return {{"stages", std::move(stages)},
          {cost_key(input), cost ? ordered_json(*cost) : ordered_json(nullptr)},
          {"useful_samples", report.useful_samples},
          {"useful_samples_per_s", report.useful_samples_per_s},
          {"assigned_samples_per_s", report.assigned_samples_per_s},
          {"optimal_samples_per_s", report.optimal_samples_per_s},
          {"optimum_is_exact", report.optimum_is_exact},
          {"share_of_optimum", report.share_of_optimum},
          {"timeouts", report.timeouts},
          {"bans", report.bans},
          {"restarts", report.restarts},
          {"failures", report.failures},
          {"joins", report.joins},
          {"stage_switches", report.moves},
          {"contended_messages", report.shared_messages}};
}

ordered_json verification_json(const Topology& topology, const sim::VerificationReport& report) {
  ordered_json detected = ordered_json::array();
  for (const sim::CaughtPeer& peer : report.caught)
    detected.push_back({{"device", topology.devices[at(peer.device)].id},
                        {"date_s", peer.date_s},
                        {"calls", peer.calls},
                        {"samples", peer.samples}});
  return {{"verified_calls", report.verified},     {"unverified_calls", report.unverified},
          {"compute_s", report.compute_s},         {"sent_bytes", report.bytes},
          {"corrupt_calls", report.corrupt_calls}, {"detected", std::move(detected)}};
}

}  // namespace dtfm::io
