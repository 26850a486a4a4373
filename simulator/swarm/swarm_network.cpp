#include "simulator/swarm/swarm_network.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/problem.hpp"
#include "simulator/engine/clock.hpp"

namespace dtfm::sim {
namespace {

/// Seconds; a route without latency counts like 200 m of fibre (see graph/graph_network.cpp).
constexpr double min_round_trip = 1e-6;

}  // namespace

SwarmNetwork::SwarmNetwork(SwarmContext& run)
    : run_(run),
      topology_(run.problem.topology),
      lowered_(topology_, run.problem.constants, graph_),
      routes_(at(run.devices())),
      traffic_(topology_.sites.size() * topology_.sites.size()) {}

SwarmNetwork::Route SwarmNetwork::route(int from, int to) {
  std::vector<Route>& from_here = routes_[at(from)];
  if (from_here.empty()) from_here.resize(routes_.size());
  Route& route = from_here[at(to)];
  if (route.path == none) route = new_route(from, to);
  return route;
}

SwarmNetwork::Route SwarmNetwork::new_route(int from, int to) {
  const int number = lowered_.route(from, to);
  const double efficiency = graph_.model.bandwidth_factor;
  for (std::size_t link = fluid_link_.size(); link < graph_.links.size(); ++link) {
    const GraphLink& it = graph_.links[link];
    fluid_link_.push_back(it.sharing == Sharing::fatpipe ? none : fluid_.add_link(it.bandwidth * efficiency));
  }
  Path path;
  path.overhead = message_overhead_s(run_.problem.constants, topology_, from, to);
  path.rate = infinity;
  const int first_use = static_cast<int>(uses_.size());
  for (const int link : graph_.routes[at(number)].links) {
    path.latency += graph_.links[at(link)].latency;
    if (fluid_link_[at(link)] == none)
      path.rate = std::min(path.rate, graph_.links[at(link)].bandwidth * efficiency);
    else
      uses_.push_back(fluid_link_[at(link)]);
  }
  path.use_count = static_cast<int>(uses_.size()) - first_use;
  if (graph_.model.weigh_by_latency)
    path.weight = 1 / std::max(path.latency + graph_.routes[at(number)].return_latency, min_round_trip);
  const auto [known, is_new] = path_numbers_.try_emplace(path, static_cast<int>(paths_.size()));
  if (is_new) paths_.push_back(path);
  return {known->second, first_use};
}

int SwarmNetwork::new_message() {
  if (unused_.empty()) {
    messages_.emplace_back();
    return static_cast<int>(messages_.size()) - 1;
  }
  const int number = unused_.back();
  unused_.pop_back();
  return number;
}

int SwarmNetwork::send(int from, int to, double bytes, int owner, Purpose purpose) {
  const int number = new_message();
  Message& it = messages_[at(number)];
  const std::uint32_t generation = it.generation + 1;
  it = {from, to, owner, purpose, bytes, none, 0, none, generation, true};
  ++sent_;
  if (from == to) {
    run_.push(run_.now, {QueueEvent::Kind::arrival, number, generation});
    return number;
  }
  const Route route = this->route(from, to);
  it.path = route.path;
  it.first_use = route.first_use;
  begin_traffic(site(from), site(to));
  const Path& path = paths_[at(it.path)];
  if (path.use_count == 0) {
    run_.push(run_.now + (path.overhead + bytes / path.rate + path.latency),
              {QueueEvent::Kind::arrival, number, generation});
  } else {
    ++shared_;
    if (path.overhead > 0)
      run_.push(run_.now + path.overhead, {QueueEvent::Kind::transfer_starts, number, generation});
    else
      begin_transfer(number);
  }
  return number;
}

void SwarmNetwork::begin_transfer(int number) {
  Message& it = messages_[at(number)];
  const Path& path = paths_[at(it.path)];
  transfer_uses_.clear();
  for (const int link : std::span(uses_).subspan(at(it.first_use), at(path.use_count)))
    transfer_uses_.push_back({link});
  it.flow = fluid_.add(transfer_uses_, it.bytes, path.weight, path.rate);
  if (message_of_flow_.size() <= at(it.flow)) message_of_flow_.resize(at(it.flow) + 1);
  message_of_flow_[at(it.flow)] = number;
}

void SwarmNetwork::end_next() {
  const int flow = fluid_.ends().next().flow, number = message_of_flow_[at(flow)];
  Message& it = messages_[at(number)];
  fluid_.remove(flow);
  it.flow = none;
  run_.push(run_.now + paths_[at(it.path)].latency, {QueueEvent::Kind::arrival, number, it.generation});
}

SwarmNetwork::Message SwarmNetwork::arrive(int number) {
  const Message it = messages_[at(number)];
  free(number, it.bytes);
  return it;
}

void SwarmNetwork::cancel(int number) {
  const int flow = messages_[at(number)].flow;
  if (flow != none) fluid_.remove(flow);
  free(number, 0);
}

void SwarmNetwork::free(int number, double bytes) {
  Message& it = messages_[at(number)];
  DTFM_ASSERT(it.is_active);
  it.is_active = false;
  if (it.from != it.to) end_traffic(site(it.from), site(it.to), bytes);
  unused_.push_back(number);
}

void SwarmNetwork::begin_traffic(int from_site, int to_site) {
  Traffic& it = traffic(from_site, to_site);
  if (it.active++ == 0) it.since = run_.now;
}

void SwarmNetwork::end_traffic(int from_site, int to_site, double bytes) {
  Traffic& it = traffic(from_site, to_site);
  it.bytes += bytes;
  if (--it.active == 0) it.busy += run_.now - it.since;
}

std::vector<LinkReport> SwarmNetwork::reports() const {
  std::vector<LinkReport> reports;
  for (std::size_t i = 0; i < traffic_.size(); ++i) {
    const Traffic& it = traffic_[i];
    const double busy = it.busy + (it.active > 0 ? run_.now - it.since : 0);
    if (it.bytes > 0 || busy > 0)
      reports.push_back({static_cast<int>(i / topology_.sites.size()),
                         static_cast<int>(i % topology_.sites.size()), it.bytes, busy});
  }
  std::stable_sort(reports.begin(), reports.end(),
                   [](const LinkReport& a, const LinkReport& b) { return a.bytes > b.bytes; });
  return reports;
}

}  // namespace dtfm::sim
