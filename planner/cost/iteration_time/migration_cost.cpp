#include "planner/cost/iteration_time/migration_cost.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/index.hpp"
#include "core/plan/model_state.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::cost {

MigrationCost::MigrationCost(const Problem& problem, std::shared_ptr<const NetworkCost> network,
                             const Plan& before, int chunks)
    : network_(std::move(network)), held_layers_of_(at(problem.topology->size())), before_bytes_{0} {
  const std::vector<Layer> chain = layer_chain(problem.job);
  const double checkpointed = parameter_bytes(problem.job.training).checkpointed;
  for (std::size_t layer = 0; layer < chain.size(); ++layer) {
    tied_bytes_ = std::max(tied_bytes_, chain[layer].tied_parameters * checkpointed);
    if (layer == 0 || chain[layer].tied_parameters > 0) tied_layers_.push_back(static_cast<int>(layer));
  }
  if (tied_bytes_ == 0) tied_layers_.clear();
  for (std::size_t layer = 0; layer < chain.size(); ++layer) {
    const double own = (chain[layer].parameters - chain[layer].tied_parameters) * checkpointed;
    before_bytes_.push_back(before_bytes_.back() + own - (layer == 0 ? tied_bytes_ : 0));
  }
  for (const Pipeline& pipeline : before.pipelines) {
    const auto layers = layers_by_stage(pipeline, chunks);
    for (std::size_t stage = 0; stage < layers.size(); ++stage)
      for (std::size_t rank = 0; rank < pipeline.stages[stage].devices.size(); ++rank) {
        const int device = pipeline.stages[stage].devices[rank];
        if (device == no_device) continue;
        held_layers_of_[at(device)].first = held_layers_.size();
        for (const Layers& held_layers : layers[stage]) {
          held_layers_.push_back({device, held_layers, share_of(pipeline.stages[stage], rank),
                                  first_tied(held_layers) < held_layers.second});
          boundaries_.insert(boundaries_.end(), {held_layers.first, held_layers.second});
        }
        held_layers_of_[at(device)].second = held_layers_.size();
      }
  }
  std::sort(boundaries_.begin(), boundaries_.end());
  boundaries_.erase(std::unique(boundaries_.begin(), boundaries_.end()), boundaries_.end());
  holders_.resize(boundaries_.size());
  for (const HeldLayers& held_layers : held_layers_) {
    if (held_layers.has_tied) add_holder(held_layers, tied_holders_);
    for (std::size_t i = boundary_at(held_layers.layers.first); boundaries_[i] < held_layers.layers.second;
         ++i)
      add_holder(held_layers, holders_[i]);
  }
}

/// Without a network all holders are equivalent, so that only their joint shares are kept: disjoint ranges in
/// ascending order.
void MigrationCost::add_holder(const HeldLayers& held_layers, std::vector<HeldLayers>& holders) const {
  if (network_) return holders.push_back(held_layers);
  HeldLayers all = held_layers;
  all.device = unspecified_source;
  const auto first = std::find_if(holders.begin(), holders.end(), [&](const HeldLayers& it) {
    return it.share.end >= held_layers.share.begin;
  });
  auto last = first;
  for (; last != holders.end() && last->share.begin <= held_layers.share.end; ++last) {
    all.share.begin = std::min(all.share.begin, last->share.begin);
    all.share.end = std::max(all.share.end, last->share.end);
  }
  holders.insert(holders.erase(first, last), all);
}

double MigrationCost::max_steps(int devices) const {
  double steps = 0;
  const auto add = [&](const std::vector<HeldLayers>& holders) {
    std::set<double> shares;
    for (const HeldLayers& held_layers : holders) shares.insert(held_layers.share.begin);
    steps += static_cast<double>(holders.size()) * static_cast<double>(shares.size());
  };
  for (const std::vector<HeldLayers>& holders : holders_) add(holders);
  add(tied_holders_);
  return steps * devices;
}

/// An assumption where a stage has several copies of a parameter, of which a device then needs more.
MigrationCost::Share MigrationCost::share_of(const Stage& stage, std::size_t rank) {
  const double tensor = static_cast<double>(stage.devices.size());
  return {static_cast<double>(rank) / tensor, static_cast<double>(rank + 1) / tensor};
}

bool MigrationCost::holds(const HeldLayers& held_layers, const Piece& piece) {
  if (piece.is_tied) return held_layers.has_tied;
  return held_layers.layers.first <= piece.layers.first && piece.layers.first < held_layers.layers.second;
}

int MigrationCost::first_tied(Layers layers) const {
  const auto found = std::lower_bound(tied_layers_.begin(), tied_layers_.end(), layers.first);
  return found == tied_layers_.end() ? layers.second : std::min(*found, layers.second);
}

std::size_t MigrationCost::boundary_at(int layer) const {
  const auto after = std::upper_bound(boundaries_.begin(), boundaries_.end(), layer);
  return static_cast<std::size_t>(after - boundaries_.begin()) - 1;
}

int MigrationCost::next_boundary(int layer) const {
  const auto found = std::upper_bound(boundaries_.begin(), boundaries_.end(), layer);
  return found == boundaries_.end() ? std::numeric_limits<int>::max() : *found;
}

/// Empty if all devices of the plan are gone.
std::span<const MigrationCost::HeldLayers> MigrationCost::holders(const Piece& piece) const {
  if (piece.is_tied) return tied_holders_;
  if (boundaries_.empty() || piece.layers.first < boundaries_.front()) return {};
  return holders_[boundary_at(piece.layers.first)];
}

Migration MigrationCost::of(const Plan& plan, int chunks) const {
  Migration migration;
  for (int p = 0; at(p) < plan.pipelines.size(); ++p) {
    const Pipeline& pipeline = plan.pipelines[at(p)];
    const auto layers = layers_by_stage(pipeline, chunks);
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const Stage& stage = pipeline.stages[s];
      for (std::size_t rank = 0; rank < stage.devices.size(); ++rank)
        add_parts({stage.devices[rank], p, share_of(stage, rank)}, layers[s], migration.parts);
    }
  }
  for (const MigratedPart& part : migration.parts)
    (part.from == no_device ? migration.checkpoint_bytes : migration.bytes) += part.bytes;
  if (!network_) return migration;
  const MigrationEstimate estimate = MigrationTimer(*this, chunks).estimate(plan);
  migration.seconds = estimate.seconds;
  migration.usd = estimate.usd;
  return migration;
}

double MigrationCost::missing_bytes(const std::vector<int>& devices,
                                    const std::vector<Layers>& layers) const {
  const Stage stage{{}, devices};
  std::vector<MigratedPart> parts;
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    add_parts({devices[rank], 0, share_of(stage, rank)}, layers, parts);
  double bytes = 0;
  for (const MigratedPart& part : parts) bytes += part.bytes;
  return bytes;
}

void MigrationCost::add_parts(const Receiver& to, const std::vector<Layers>& layers,
                              std::vector<MigratedPart>& parts) const {
  int tied = -1;
  for (const auto& [begin, end] : layers) {
    if (const int layer = first_tied({begin, end}); tied < 0 && layer < end) tied = layer;
    for (int first = begin; first < end;) {
      const int last = std::min(end, next_boundary(first));
      add_piece(to, {{first, last}, before_bytes_[at(last)] - before_bytes_[at(first)], false}, parts);
      first = last;
    }
  }
  if (tied >= 0) add_piece(to, {{tied, tied + 1}, tied_bytes_, true}, parts);
}

/// Leaves out the share that `to` already holds.
void MigrationCost::add_piece(const Receiver& to, const Piece& piece,
                              std::vector<MigratedPart>& parts) const {
  if (piece.bytes <= 0) return;
  const auto [first, last] = held_layers_of_[at(to.device)];
  const std::span<const HeldLayers> runs = std::span(held_layers_).subspan(first, last - first);
  const auto own = std::find_if(runs.begin(), runs.end(),
                                [&](const HeldLayers& held_layers) { return holds(held_layers, piece); });
  if (own == runs.end()) return add_share(to, to.share, piece, parts);
  add_share(to, {to.share.begin, std::min(to.share.end, own->share.begin)}, piece, parts);
  add_share(to, {std::max(to.share.begin, own->share.end), to.share.end}, piece, parts);
}

/// Takes the share from as many holders as necessary. Each sends all that it has from the end of the previous
/// one.
void MigrationCost::add_share(const Receiver& to, Share share, const Piece& piece,
                              std::vector<MigratedPart>& parts) const {
  for (double begin = share.begin; begin < share.end;) {
    const HeldLayers* source = fastest(to, begin, piece, piece.bytes * (share.end - begin));
    double end = source ? std::min(share.end, source->share.end) : share.end;
    if (!source)  // a range that no device holds ends where a device holds something
      for (const HeldLayers& held_layers : holders(piece))
        if (held_layers.share.begin > begin) end = std::min(end, held_layers.share.begin);
    const MigratedPart part{to.device, source ? source->device : no_device, piece.layers,
                            piece.bytes * (end - begin)};
    const auto same = std::find_if(parts.rbegin(), parts.rend(), [&](const MigratedPart& it) {
      return it.to != to.device || (it.from == part.from && it.layers.first <= part.layers.first &&
                                    part.layers.first <= it.layers.second);
    });
    if (same != parts.rend() && same->to == to.device) {
      same->layers.second = std::max(same->layers.second, part.layers.second);
      same->bytes += part.bytes;
    } else {
      parts.push_back(part);
    }
    begin = end;
  }
}

const MigrationCost::HeldLayers* MigrationCost::fastest(const Receiver& to, double at_share,
                                                        const Piece& piece, double bytes) const {
  double least = std::numeric_limits<double>::infinity();
  int ties = 0;
  const auto seconds = [&](const HeldLayers& held_layers) {
    if (at_share < held_layers.share.begin || at_share >= held_layers.share.end)
      return std::numeric_limits<double>::infinity();
    return network_ ? network_->message(held_layers.device, to.device).total_s(bytes) : 0;
  };
  for (const HeldLayers& held_layers : holders(piece)) {
    const double it = seconds(held_layers);
    if (it < least) ties = 0;
    least = std::min(least, it);
    if (it == least) ++ties;
  }
  if (least == std::numeric_limits<double>::infinity()) return nullptr;
  int number = to.pipeline % ties;
  for (const HeldLayers& held_layers : holders(piece))
    if (seconds(held_layers) == least && number-- == 0) return &held_layers;
  return nullptr;
}

MigrationEstimate MigrationTimer::estimate(const Plan& plan) {
  refresh(plan);
  const NetworkCost& network = *cost_.network_;
  load_.assign(at(network.shared_count()), 0);
  const auto for_all = [&](const auto& use) {
    for (const auto& stages : known_)
      for (const StageMessages& stage : stages)
        for (const Message& message : stage.messages) use(message);
  };
  if (network.shared_count() > 0)
    for_all([&](const Message& message) {
      for (const int id : network.shared(message.from, message.to)) load_[at(id)] += message.bytes;
    });
  MigrationEstimate estimate;
  for_all([&](const Message& message) {
    estimate.seconds = std::max(estimate.seconds, migration_s(message));
    estimate.usd += message.bytes * network.usd_per_byte(message.from, message.to);
  });
  return estimate;
}

double MigrationTimer::migration_s(const Message& message) const {
  const NetworkCost& network = *cost_.network_;
  const MessageCost cost = network.message(message.from, message.to);
  double migration = message.bytes * cost.seconds_per_byte;
  if (network.shared_count() > 0)
    for (const int id : network.shared(message.from, message.to))
      migration = std::max(migration, load_[at(id)] * network.shared_seconds_per_byte(id));
  return cost.overhead_s + migration + cost.latency_s;
}

void MigrationTimer::refresh(const Plan& plan) {
  known_.resize(plan.pipelines.size());
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const Pipeline& pipeline = plan.pipelines[p];
    known_[p].resize(pipeline.stages.size());
    std::vector<std::vector<std::pair<int, int>>> layers;
    if (chunks_ > 1) layers = layers_by_stage(pipeline, chunks_);
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      StageMessages& known = known_[p][s];
      const Stage& stage = pipeline.stages[s];
      const bool has_same_layers = chunks_ > 1 ? known.layers == layers[s]
                                               : known.layers.size() == 1 && known.layers[0] == stage.layers;
      if (has_same_layers && known.devices == stage.devices) continue;
      known.devices = stage.devices;
      known.layers = chunks_ > 1 ? layers[s] : std::vector{stage.layers};
      find_messages(stage, static_cast<int>(p), known);
    }
  }
}

void MigrationTimer::find_messages(const Stage& stage, int pipeline, StageMessages& known) {
  known.messages.clear();
  std::vector<MigratedPart> parts;
  for (std::size_t rank = 0; rank < stage.devices.size(); ++rank)
    cost_.add_parts({stage.devices[rank], pipeline, MigrationCost::share_of(stage, rank)}, known.layers,
                    parts);
  for (const MigratedPart& part : parts) {
    if (part.from == no_device) continue;
    const auto same = std::find_if(known.messages.rbegin(), known.messages.rend(), [&](const Message& it) {
      return it.to != part.to || it.from == part.from;
    });
    if (same != known.messages.rend() && same->to == part.to)
      same->bytes += part.bytes;
    else
      known.messages.push_back({part.from, part.to, part.bytes});
  }
}

}  // namespace dtfm::cost
