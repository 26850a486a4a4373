#include "simulator/io/graph_reader.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "simulator/io/line_tokens.hpp"
#include "simulator/io/name_table.hpp"
#include "simulator/io/route_table.hpp"

namespace dtfm::io {
namespace {

/// Maximum number of links in all routes that flows take, which bounds the memory that a small file can use.
constexpr std::size_t max_route_links = 100'000'000;
/// Minimum period of a profile in s, far above the grid of simulated time. On a period below the grid, time
/// would never advance.
constexpr double min_period = 1e-9;
/// In the order of the keywords bw, lat, speed.
constexpr std::array quantities = {sim::Profile::Quantity::bandwidth, sim::Profile::Quantity::latency,
                                   sim::Profile::Quantity::speed};

class GraphReader {
 public:
  explicit GraphReader(const std::string& file) : file_(file), tokens_(file) {}
  sim::TaskGraph read(std::string_view text);

 private:
  struct Statement {
    std::string_view name;
    void (GraphReader::*read)();
  };
  struct FlowReference {
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

  [[noreturn]] void fail(const Token& token, const std::string& message) const {
    fail_at(file_, token, message);
  }
  /// Takes the name of a new object. Throws Error if the name is already in the table.
  Token define(NameTable& table, std::string_view kind);
  int lookup(const NameTable& table, std::string_view kind, const Token& token) const;
  int take_name(const NameTable& table, std::string_view kind) {
    return lookup(table, kind, tokens_.take(kind));
  }
  std::vector<int> take_links();
  void add_task(sim::Task task, const Token& name, const std::vector<std::string_view>& options);
  void read_option(sim::Task& task, const std::vector<std::string_view>& options, std::vector<bool>& given);
  void read_after();
  void find_routes();
  int add_route(const FlowReference& flow);
  void count_links(std::size_t links, std::size_t line);

  const std::string& file_;
  LineTokens tokens_;
  std::size_t line_ = 0;
  sim::TaskGraph graph_;
  NameTable hosts_, links_, sites_, queues_, tasks_;
  RouteTable routes_;
  std::vector<FlowReference> flows_;
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
    tokens_.read(text.substr(0, end), ++line_);
    if (!tokens_.empty()) read_line();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  graph_.queues = static_cast<int>(queues_.names().size());
  find_routes();
  return std::move(graph_);
}

void GraphReader::read_line() {
  const Token token = tokens_.take("a statement");
  for (const Statement& statement : statements())
    if (statement.name == token.text) {
      (this->*statement.read)();
      return tokens_.expect_end();
    }
  std::vector<std::string_view> names;
  for (const Statement& statement : statements()) names.push_back(statement.name);
  fail(token, fmt::format("unknown statement {}; {}", quote(token.text), suggestion(token.text, names)));
}

Token GraphReader::define(NameTable& table, std::string_view kind) {
  const Token token = tokens_.take(fmt::format("the name of a {}", kind));
  if (token.text.find_first_of(",\"") != std::string_view::npos)
    fail(token, fmt::format("the name of a {} must not contain commas or quotes; found {}", kind,
                            quote(token.text)));
  if (table.find(token.text) >= 0)
    fail(token, fmt::format("there is already a {} {}", kind, quote(token.text)));
  return token;
}

int GraphReader::lookup(const NameTable& table, std::string_view kind, const Token& token) const {
  const int number = table.find(token.text);
  if (number < 0)
    fail(token,
         fmt::format("undefined {} {}; {}", kind, quote(token.text), suggestion(token.text, table.names())));
  return number;
}

void GraphReader::read_config() {
  sim::NetworkModel& model = graph_.model;
  switch (tokens_.take_choice("setting", {"share", "latency_factor", "bandwidth_factor", "weight_S",
                                          "tcp_gamma", "crosstraffic", "preset"})) {
    case 0:
      model.weigh_by_latency = tokens_.take_choice("share", {"equal", "rtt"}) == 1;
      break;
    case 1:
      model.latency_factor = tokens_.take_number("latency_factor", NumberRange::non_negative);
      break;
    case 2:
      model.bandwidth_factor = tokens_.take_number("bandwidth_factor", NumberRange::positive);
      break;
    case 3:
      model.weight_s = tokens_.take_number("weight_S", NumberRange::non_negative);
      break;
    case 4:
      model.window = tokens_.take_number("tcp_gamma", NumberRange::non_negative);
      break;
    case 5:
      model.cross_traffic = tokens_.take_choice("crosstraffic", {"0", "1"}) == 1;
      break;
    default:
      read_preset();
  }
}

void GraphReader::read_preset() {
  const int preset = tokens_.take_choice("preset", {"maxmin", "CM02", "LV08"});
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
  const Token name = define(hosts_, "host");
  sim::Host host{std::string(name.text)};
  if (!tokens_.done()) host.speed = tokens_.take_number("SPEED", NumberRange::positive);
  if (!tokens_.done() && tokens_.take_choice("kind of host", {"fifo", "ps"}) == 1)
    host.sharing = sim::HostSharing::processor_sharing;
  hosts_.add(name.text);
  graph_.hosts.push_back(std::move(host));
}

void GraphReader::read_link() {
  const Token name = define(links_, "link");
  sim::GraphLink link;
  link.bandwidth = tokens_.take_number("BW", NumberRange::non_negative);
  link.latency = tokens_.take_number("LATENCY", NumberRange::non_negative);
  if (!tokens_.done() && tokens_.take_choice("kind of link", {"shared", "fatpipe"}) == 1)
    link.sharing = sim::Sharing::fatpipe;
  links_.add(name.text);
  graph_.links.push_back(link);
  graph_.link_names.emplace_back(name.text);
}

std::vector<int> GraphReader::take_links() {
  std::vector<int> links;
  do links.push_back(take_name(links_, "link"));
  while (!tokens_.done());
  return links;
}

void GraphReader::read_route() {
  const Token source = tokens_.take("host");
  const int from = lookup(hosts_, "host", source), to = take_name(hosts_, "host");
  if (!routes_.add_route({from, to}, take_links()))
    fail(source, "there is already a route between these hosts");
}

void GraphReader::read_access() {
  const Token name = tokens_.take("host");
  const int host = lookup(hosts_, "host", name), site = sites_.add(tokens_.take("SITE").text);
  const int uplink = take_name(links_, "link"), downlink = take_name(links_, "link");
  if (!routes_.add_access(host, {site, uplink, downlink}))
    fail(name, fmt::format("host {} already has its access links", quote(name.text)));
}

void GraphReader::read_pipe() {
  const Token source = tokens_.take("site");
  const int from = lookup(sites_, "site", source), to = take_name(sites_, "site");
  if (!routes_.add_pipe({from, to}, take_links()))
    fail(source, "there is already a pipe between these sites");
}

void GraphReader::read_profile() {
  sim::Profile profile;
  const Token name = tokens_.take("link or host");
  profile.quantity = quantities[at(tokens_.take_choice("quantity", {"bw", "lat", "speed"}))];
  const bool is_host_profile = profile.quantity == sim::Profile::Quantity::speed;
  profile.targets = {{is_host_profile ? lookup(hosts_, "host", name) : lookup(links_, "link", name)}};
  do {
    const Token token = tokens_.peek("T");
    if (token.text == "period" && !profile.steps.empty()) break;
    const double date = tokens_.take_number("T", NumberRange::non_negative);
    if (!profile.steps.empty() && date <= profile.steps.back().date)
      fail(token,
           fmt::format("expected a T after {}; found {}", profile.steps.back().date, quote(token.text)));
    profile.steps.push_back({date, tokens_.take_number("V", NumberRange::non_negative)});
  } while (!tokens_.done());
  if (!tokens_.done()) {
    tokens_.take("period");
    const Token token = tokens_.peek("P");
    profile.period = tokens_.take_number("P", NumberRange::positive);
    const double length = profile.steps.back().date - profile.steps.front().date;
    if (profile.period < min_period)
      fail(token,
           fmt::format("expected a period of at least {:g} s; found {}", min_period, quote(token.text)));
    if (profile.period <= length)
      fail(token, fmt::format("expected a period above {}, from the first T to the last; found {}", length,
                              quote(token.text)));
  }
  graph_.profiles.push_back(std::move(profile));
}

void GraphReader::read_fail() {
  sim::Failure failure;
  if (tokens_.take_choice("thing that fails", {"link", "host"}) == 0)
    failure.link = take_name(links_, "link");
  else
    failure.host = take_name(hosts_, "host");
  failure.down = tokens_.take_number("T_DOWN", NumberRange::non_negative);
  if (!tokens_.done()) {
    const Token token = tokens_.peek("T_UP");
    failure.up = tokens_.take_number("T_UP", NumberRange::non_negative);
    if (failure.up <= failure.down)
      fail(token, fmt::format("expected a T_UP after {}; found {}", failure.down, quote(token.text)));
  }
  graph_.failures.push_back(failure);
}

void GraphReader::read_compute() {
  sim::Task task;
  task.kind = sim::TaskKind::compute;
  const Token name = define(tasks_, "task");
  task.host = take_name(hosts_, "host");
  task.amount = tokens_.take_number("WORK", NumberRange::non_negative);
  add_task(task, name, {"after", "prio", "queue"});
}

void GraphReader::read_delay() {
  sim::Task task;
  const Token name = define(tasks_, "task");
  task.amount = tokens_.take_number("SECONDS", NumberRange::non_negative);
  add_task(task, name, {"after", "prio", "queue"});
}

void GraphReader::read_flow() {
  sim::Task task;
  task.kind = sim::TaskKind::flow;
  const Token name = define(tasks_, "task");
  task.host = take_name(hosts_, "host");
  task.destination = take_name(hosts_, "host");
  task.amount = tokens_.take_number("BYTES", NumberRange::non_negative);
  add_task(task, name, {"after", "prio", "queue", "rate", "stream"});
  if (task.host != task.destination)
    flows_.push_back({{task.host, task.destination}, static_cast<int>(graph_.tasks.size()) - 1, line_});
}

void GraphReader::add_task(sim::Task task, const Token& name, const std::vector<std::string_view>& options) {
  task.first_after = static_cast<int>(graph_.after.size());
  std::vector<bool> given(options.size());
  while (!tokens_.done()) read_option(task, options, given);
  task.after_count = static_cast<int>(graph_.after.size()) - task.first_after;
  tasks_.add(name.text);
  graph_.task_names.emplace_back(name.text);
  graph_.tasks.push_back(task);
}

void GraphReader::read_option(sim::Task& task, const std::vector<std::string_view>& options,
                              std::vector<bool>& given) {
  const Token token = tokens_.peek("option");
  const int option = tokens_.take_choice("option", options);
  if (given[at(option)]) fail(token, fmt::format("{} is given twice", token.text));
  given[at(option)] = true;
  if (token.text == "after")
    read_after();
  else if (token.text == "prio")
    task.priority = tokens_.take_number("N", NumberRange::any);
  else if (token.text == "queue")
    task.queue = queues_.add(tokens_.take("Q").text);
  else if (token.text == "stream")
    task.streamed = true;
  else
    task.rate = tokens_.take_number("BYTES_PER_S", NumberRange::positive);
}

void GraphReader::read_after() {
  Token list = tokens_.take("ID");
  for (;;) {
    Token id = list;
    id.text = list.text.substr(0, list.text.find(','));
    if (id.text.empty()) fail(id, "expected ID,ID,… without blanks; found an empty one");
    graph_.after.push_back(lookup(tasks_, "task", id));
    if (id.text.size() == list.text.size()) return;
    list.text.remove_prefix(id.text.size() + 1);
    list.column += id.text.size() + 1;
  }
}

/// Assigns a route to every flow; flows between the same hosts share one.
void GraphReader::find_routes() {
  std::stable_sort(flows_.begin(), flows_.end(),
                   [](const FlowReference& a, const FlowReference& b) { return a.hosts < b.hosts; });
  const FlowReference* previous = nullptr;
  for (const FlowReference& flow : flows_) {
    const bool again = previous != nullptr && previous->hosts == flow.hosts;
    graph_.tasks[at(flow.task)].route = again ? graph_.tasks[at(previous->task)].route : add_route(flow);
    previous = &flow;
  }
}

int GraphReader::add_route(const FlowReference& flow) {
  const auto [from, to] = flow.hosts;
  std::optional<RouteTable::Links> links = routes_.links_between(flow.hosts);
  if (!links)
    fail({{}, flow.line, 1},
         fmt::format("no route from {} to {}: neither a route nor access links and a pipe",
                     quote(graph_.hosts[at(from)].name), quote(graph_.hosts[at(to)].name)));
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
  if (route_links_ > max_route_links)
    fail({{}, line, 1},
         fmt::format("the routes of all flows have more than {} links in total", max_route_links));
}

}  // namespace

sim::TaskGraph parse_task_graph(std::string text, const std::string& file) {
  const std::string checked = validate_text(std::move(text), file);
  return GraphReader(file).read(checked);
}

}  // namespace dtfm::io
