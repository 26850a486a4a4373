#include "simulator/lowering/graph_builder.hpp"

#include "core/base/index.hpp"
#include "core/plan/problem.hpp"
#include "simulator/graph/tcp.hpp"

namespace dtfm::sim {

void GraphBuilder::reserve(std::size_t tasks) {
  result_.graph.tasks.reserve(tasks);
  result_.graph.after.reserve(2 * tasks);
  result_.labels.reserve(tasks);
}

Channel GraphBuilder::channel(int from, int to, Activity kind) {
  if (from == to) return {from, to};
  const auto [queue, is_new] = queues_.emplace(std::pair(kind, std::pair(from, to)), result_.graph.queues);
  if (is_new) ++result_.graph.queues;
  return {from, to, network_.route(from, to), queue->second};
}

bool GraphBuilder::announces(int from, int to) const {
  const Transport* library = transport(from, to);
  return library && library->handshakes == 1;
}

bool GraphBuilder::is_buffered(const Channel& channel, double bytes) const {
  const Transport* library = transport(channel.from, channel.to);
  return library && library->buffers_sends && bytes <= library->window.value();
}

int GraphBuilder::add(const Task& task, std::span<const int> after, const TaskLabel& label) {
  TaskGraph& graph = result_.graph;
  throw_if_stopped(stop_, graph.tasks.size());
  const auto first = static_cast<int>(graph.after.size());
  for (const int before : after)
    if (before != no_index) graph.after.push_back(before);
  graph.tasks.push_back(task);
  graph.tasks.back().first_after = first;
  graph.tasks.back().after_count = static_cast<int>(graph.after.size()) - first;
  result_.labels.push_back(label);
  return static_cast<int>(graph.tasks.size()) - 1;
}

int GraphBuilder::compute(int device, double seconds, std::span<const int> after, TaskLabel label) {
  Task task;
  task.kind = TaskKind::compute;
  task.host = label.device = device;
  task.amount = seconds;
  return add(task, after, label);
}

void GraphBuilder::add_transport(const Channel& channel, double messages, Task& task) {
  const int from = channel.from, to = channel.to;
  task.overhead = messages * message_overhead_s(constants_, topology_, from, to);
  const Transport* library = transport(from, to);
  if (library == nullptr) return;
  const double latency_s = topology_.link(from, to).latency.value(),
               round_trip_s = topology_.round_trip(from, to).value();
  const double bytes_per_s =
      topology_.uncontended_bandwidth(from, to).value() / bits_per_byte * constants_.network_efficiency;
  task.rate = connection_rate({bytes_per_s, latency_s, round_trip_s}, library->window.value(),
                              channel.both_ends_send);
  task.overhead += messages * (channel.is_announced ? 0 : library->handshakes) * latency_s;
  const auto [connection, is_new] =
      connections_.emplace(std::pair(from, to), static_cast<int>(connections_.size()));
  if (is_new) result_.graph.connections.push_back({library->initial_window.value(), round_trip_s});
  task.connection = connection->second;
}

int GraphBuilder::send(const Channel& channel, double bytes, std::span<const int> after, TaskLabel label) {
  return send_sequentially(channel, bytes, 1, after, label);
}

int GraphBuilder::send_sequentially(const Channel& channel, double bytes, double messages,
                                    std::span<const int> after, TaskLabel label) {
  Task task;
  task.kind = TaskKind::flow;
  task.streamed = true;
  task.host = label.device = channel.from;
  task.destination = label.peer = channel.to;
  task.route = channel.route;
  task.queue = channel.queue;
  task.amount = bytes;
  task.latencies = channel.latencies;
  add_transport(channel, messages * channel.latencies, task);
  if (messages > 1)
    task.overhead += (messages - 1) * topology_.link(channel.from, channel.to).latency.value();
  return add(task, after, label);
}

int GraphBuilder::wait(double seconds, std::span<const int> after, TaskLabel label) {
  Task task;
  task.kind = TaskKind::delay;
  task.amount = seconds;
  return add(task, after, label);
}

int GraphBuilder::join(std::span<const int> tasks, TaskLabel label) {
  return tasks.size() == 1 ? tasks.front() : wait(0, tasks, label);
}

int GraphBuilder::start(int device, TaskLabel label) {
  const int task = wait(0, {}, label);
  result_.starts.push_back({device, task});
  return task;
}

int GraphBuilder::end(int device, double seconds, std::span<const int> after, TaskLabel label) {
  const int task = wait(seconds, after, label);
  result_.ends.push_back({device, task});
  return task;
}

LabelledGraph GraphBuilder::take() {
  result_.links = network_.roles();
  return std::move(result_);
}

}  // namespace dtfm::sim
