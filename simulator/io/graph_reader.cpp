#include "simulator/io/graph_reader.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "planner/core/index.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"
#include "simulator/io/line_words.hpp"
#include "simulator/io/name_table.hpp"
#include "simulator/io/route_table.hpp"

namespace dtfm::io {
namespace {

/// The links of all routes that flows take, together: a bound on what a small file can ask for.
constexpr std::size_t most_route_links = 100'000'000;
/// s, of a profile: far above the grid of dates, on which it would never end.
constexpr double least_period = 1e-9;
/// As the words bw, lat, speed.
constexpr std::array quantities = {sim::Profile::Quantity::bandwidth, sim::Profile::Quantity::latency,
                                   sim::Profile::Quantity::speed};

class GraphReader {
 public:
  explicit GraphReader(const std::string& file) : file_(file), words_(file) {}
  sim::TaskGraph read(std::string_view text);

 private:
  struct Statement {
    std::string_view name;
    void (GraphReader::*read)();
  };
  struct FlowPlace {
    std::pair<int, int> hosts;
    int task;
    std::size_t line;
  };
  static const std::vector<Statement>& statements();

  void read_line();
  void read_config();
  void read_preset();
  void read_host();
  void read_link();
  void read_route();
  void read_access();
  void read_pipe();
  void read_profile();
  void read_fail();
  void read_compute();
  void read_delay();
  void read_flow();

  [[noreturn]] void fail(const Word& word, const std::string& what) const { fail_at(file_, word, what); }
  /// A name that is new, and its number.
  Word define(NameTable& table, std::string_view kind);
  int known(const NameTable& table, std::string_view kind, const Word& word) const;
  int take_known(const NameTable& table, std::string_view kind) {
    return known(table, kind, words_.take(kind));
  }
  std::vector<int> take_links();
  void add_task(sim::Task task, const Word& name, const std::vector<std::string_view>& options);
  void read_option(sim::Task& task, const std::vector<std::string_view>& options, std::vector<bool>& given);
  void read_after();
  void find_routes();
  int add_route(const FlowPlace& flow);
  void count_links(std::size_t links, std::size_t line);

  const std::string& file_;
  LineWords words_;
  std::size_t line_ = 0;
  sim::TaskGraph graph_;
  NameTable hosts_, links_, sites_, queues_, tasks_;
  RouteTable routes_;
  std::vector<FlowPlace> flows_;
  std::size_t route_links_ = 0;
};

const std::vector<GraphReader::Statement>& GraphReader::statements() {
  static const std::vector<Statement> all = {
      {"compute", &GraphReader::read_compute}, {"flow", &GraphReader::read_flow},
      {"delay", &GraphReader::read_delay},     {"host", &GraphReader::read_host},
      {"link", &GraphReader::read_link},       {"route", &GraphReader::read_route},
      {"access", &GraphReader::read_access},   {"pipe", &GraphReader::read_pipe},
      {"profile", &GraphReader::read_profile}, {"fail", &GraphReader::read_fail},
      {"config", &GraphReader::read_config}};
  return all;
}

sim::TaskGraph GraphReader::read(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    words_.read(text.substr(0, end), ++line_);
    if (!words_.empty()) read_line();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  graph_.queues = static_cast<int>(queues_.names().size());
  find_routes();
  return std::move(graph_);
}

void GraphReader::read_line() {
  const Word word = words_.take("a statement");
  for (const Statement& statement : statements())
    if (statement.name == word.text) {
      (this->*statement.read)();
      return words_.expect_end();
    }
  std::vector<std::string_view> names;
  for (const Statement& statement : statements()) names.push_back(statement.name);
  fail(word, fmt::format("unknown statement {}; {}", in_quotes(word.text), suggestion(word.text, names)));
}

Word GraphReader::define(NameTable& table, std::string_view kind) {
  const Word word = words_.take(fmt::format("the name of a {}", kind));
  if (word.text.find_first_of(",\"") != std::string_view::npos)
    fail(word,
         fmt::format("the name of a {} has no comma and no quote; found {}", kind, in_quotes(word.text)));
  if (table.find(word.text) >= 0)
    fail(word, fmt::format("there is already a {} {}", kind, in_quotes(word.text)));
  return word;
}

int GraphReader::known(const NameTable& table, std::string_view kind, const Word& word) const {
  const int number = table.find(word.text);
  if (number < 0)
    fail(word, fmt::format("no {} {} so far; {}", kind, in_quotes(word.text),
                           suggestion(word.text, table.names())));
  return number;
}

void GraphReader::read_config() {
  sim::NetworkModel& model = graph_.model;
  switch (words_.take_choice("setting", {"share", "latency_factor", "bandwidth_factor", "weight_S",
                                         "tcp_gamma", "crosstraffic", "preset"})) {
    case 0:
      model.weigh_by_latency = words_.take_choice("share", {"equal", "rtt"}) == 1;
      break;
    case 1:
      model.latency_factor = words_.take_number("latency_factor", Least::zero);
      break;
    case 2:
      model.bandwidth_factor = words_.take_number("bandwidth_factor", Least::above_zero);
      break;
    case 3:
      model.weight_s = words_.take_number("weight_S", Least::zero);
      break;
    case 4:
      model.window = words_.take_number("tcp_gamma", Least::zero);
      break;
    case 5:
      model.cross_traffic = words_.take_choice("crosstraffic", {"0", "1"}) == 1;
      break;
    default:
      read_preset();
  }
}

void GraphReader::read_preset() {
  const int preset = words_.take_choice("preset", {"maxmin", "CM02", "LV08"});
  graph_.model = {};
  if (preset == 0) return;
  graph_.model.weigh_by_latency = true;
  graph_.model.window = 4194304;
  if (preset == 1) return;
  graph_.model.latency_factor = 13.01;
  graph_.model.bandwidth_factor = 0.97;
  graph_.model.weight_s = 20537;
  graph_.model.cross_traffic = true;
}

void GraphReader::read_host() {
  const Word name = define(hosts_, "host");
  sim::Host host{std::string(name.text)};
  if (!words_.done()) host.speed = words_.take_number("SPEED", Least::above_zero);
  if (!words_.done() && words_.take_choice("kind of host", {"fifo", "ps"}) == 1)
    host.sharing = sim::HostSharing::processor_sharing;
  hosts_.add(name.text);
  graph_.hosts.push_back(std::move(host));
}

void GraphReader::read_link() {
  const Word name = define(links_, "link");
  sim::GraphLink link{std::string(name.text)};
  link.bandwidth = words_.take_number("BW", Least::zero);
  link.latency = words_.take_number("LATENCY", Least::zero);
  if (!words_.done() && words_.take_choice("kind of link", {"shared", "fatpipe"}) == 1)
    link.sharing = sim::Sharing::fatpipe;
  links_.add(name.text);
  graph_.links.push_back(std::move(link));
}

std::vector<int> GraphReader::take_links() {
  std::vector<int> links;
  do links.push_back(take_known(links_, "link"));
  while (!words_.done());
  return links;
}

void GraphReader::read_route() {
  const Word source = words_.take("host");
  const int from = known(hosts_, "host", source), to = take_known(hosts_, "host");
  if (!routes_.add_route({from, to}, take_links()))
    fail(source, "there is already a route between these hosts");
}

void GraphReader::read_access() {
  const Word name = words_.take("host");
  const int host = known(hosts_, "host", name), site = sites_.add(words_.take("SITE").text);
  const int uplink = take_known(links_, "link"), downlink = take_known(links_, "link");
  if (!routes_.add_access(host, {site, uplink, downlink}))
    fail(name, fmt::format("host {} already has its access links", in_quotes(name.text)));
}

void GraphReader::read_pipe() {
  const Word source = words_.take("site");
  const int from = known(sites_, "site", source), to = take_known(sites_, "site");
  if (!routes_.add_pipe({from, to}, take_links()))
    fail(source, "there is already a pipe between these sites");
}

void GraphReader::read_profile() {
  sim::Profile profile;
  const Word name = words_.take("link or host");
  profile.quantity = quantities[at(words_.take_choice("quantity", {"bw", "lat", "speed"}))];
  const bool of_host = profile.quantity == sim::Profile::Quantity::speed;
  profile.targets = {{of_host ? known(hosts_, "host", name) : known(links_, "link", name)}};
  do {
    const Word word = words_.peek("T");
    if (word.text == "period" && !profile.steps.empty()) break;
    const double date = words_.take_number("T", Least::zero);
    if (!profile.steps.empty() && date <= profile.steps.back().date)
      fail(word,
           fmt::format("expected a T after {}; found {}", profile.steps.back().date, in_quotes(word.text)));
    profile.steps.push_back({date, words_.take_number("V", Least::zero)});
  } while (!words_.done());
  if (!words_.done()) {
    words_.take("period");
    const Word word = words_.peek("P");
    profile.period = words_.take_number("P", Least::above_zero);
    const double length = profile.steps.back().date - profile.steps.front().date;
    if (profile.period < least_period)
      fail(word,
           fmt::format("expected a period of at least {:g} s; found {}", least_period, in_quotes(word.text)));
    if (profile.period <= length)
      fail(word, fmt::format("expected a period above {}, from the first T to the last; found {}", length,
                             in_quotes(word.text)));
  }
  graph_.profiles.push_back(std::move(profile));
}

void GraphReader::read_fail() {
  sim::Failure failure;
  if (words_.take_choice("thing that fails", {"link", "host"}) == 0)
    failure.link = take_known(links_, "link");
  else
    failure.host = take_known(hosts_, "host");
  failure.down = words_.take_number("T_DOWN", Least::zero);
  if (!words_.done()) {
    const Word word = words_.peek("T_UP");
    failure.up = words_.take_number("T_UP", Least::zero);
    if (failure.up <= failure.down)
      fail(word, fmt::format("expected a T_UP after {}; found {}", failure.down, in_quotes(word.text)));
  }
  graph_.failures.push_back(failure);
}

void GraphReader::read_compute() {
  sim::Task task;
  task.kind = sim::TaskKind::compute;
  const Word name = define(tasks_, "task");
  task.host = take_known(hosts_, "host");
  task.amount = words_.take_number("WORK", Least::zero);
  add_task(task, name, {"after", "prio", "queue"});
}

void GraphReader::read_delay() {
  sim::Task task;
  const Word name = define(tasks_, "task");
  task.amount = words_.take_number("SECONDS", Least::zero);
  add_task(task, name, {"after", "prio", "queue"});
}

void GraphReader::read_flow() {
  sim::Task task;
  task.kind = sim::TaskKind::flow;
  const Word name = define(tasks_, "task");
  task.host = take_known(hosts_, "host");
  task.destination = take_known(hosts_, "host");
  task.amount = words_.take_number("BYTES", Least::zero);
  add_task(task, name, {"after", "prio", "queue", "rate", "stream"});
  if (task.host != task.destination)
    flows_.push_back({{task.host, task.destination}, static_cast<int>(graph_.tasks.size()) - 1, line_});
}

void GraphReader::add_task(sim::Task task, const Word& name, const std::vector<std::string_view>& options) {
  task.first_after = static_cast<int>(graph_.after.size());
  std::vector<bool> given(options.size());
  while (!words_.done()) read_option(task, options, given);
  task.after_count = static_cast<int>(graph_.after.size()) - task.first_after;
  tasks_.add(name.text);
  graph_.task_names.emplace_back(name.text);
  graph_.tasks.push_back(task);
}

void GraphReader::read_option(sim::Task& task, const std::vector<std::string_view>& options,
                              std::vector<bool>& given) {
  const Word word = words_.peek("option");
  const int option = words_.take_choice("option", options);
  if (given[at(option)]) fail(word, fmt::format("{} is given twice", word.text));
  given[at(option)] = true;
  if (word.text == "after")
    read_after();
  else if (word.text == "prio")
    task.priority = words_.take_number("N", Least::any);
  else if (word.text == "queue")
    task.queue = queues_.add(words_.take("Q").text);
  else if (word.text == "stream")
    task.streamed = true;
  else
    task.rate = words_.take_number("BYTES_PER_S", Least::above_zero);
}

void GraphReader::read_after() {
  Word list = words_.take("ID");
  for (;;) {
    Word id = list;
    id.text = list.text.substr(0, list.text.find(','));
    if (id.text.empty()) fail(id, "expected ID,ID,… without blanks; found an empty one");
    graph_.after.push_back(known(tasks_, "task", id));
    if (id.text.size() == list.text.size()) return;
    list.text.remove_prefix(id.text.size() + 1);
    list.column += id.text.size() + 1;
  }
}

/// Gives every flow its route; flows between the same hosts have the same one.
void GraphReader::find_routes() {
  std::stable_sort(flows_.begin(), flows_.end(),
                   [](const FlowPlace& a, const FlowPlace& b) { return a.hosts < b.hosts; });
  const FlowPlace* previous = nullptr;
  for (const FlowPlace& flow : flows_) {
    const bool again = previous != nullptr && previous->hosts == flow.hosts;
    graph_.tasks[at(flow.task)].route = again ? graph_.tasks[at(previous->task)].route : add_route(flow);
    previous = &flow;
  }
}

int GraphReader::add_route(const FlowPlace& flow) {
  const auto [from, to] = flow.hosts;
  std::optional<RouteTable::Links> links = routes_.links_between(flow.hosts);
  if (!links)
    fail({{}, flow.line, 1},
         fmt::format("no route from {} to {}: neither a route nor access links and a pipe",
                     in_quotes(graph_.hosts[at(from)].name), in_quotes(graph_.hosts[at(to)].name)));
  count_links(links->size(), flow.line);
  sim::Route route{std::move(*links), {}};
  if (graph_.model.cross_traffic)
    if (std::optional<RouteTable::Links> back = routes_.links_between({to, from})) {
      count_links(back->size(), flow.line);
      route.reverse = std::move(*back);
    }
  graph_.routes.push_back(std::move(route));
  return static_cast<int>(graph_.routes.size()) - 1;
}

void GraphReader::count_links(std::size_t links, std::size_t line) {
  route_links_ += links;
  if (route_links_ > most_route_links)
    fail({{}, line, 1},
         fmt::format("the routes of all flows have more than {} links together", most_route_links));
}

}  // namespace

sim::TaskGraph parse_task_graph(std::string text, const std::string& file) {
  const std::string checked = checked_text(std::move(text), file);
  return GraphReader(file).read(checked);
}

}  // namespace dtfm::io
