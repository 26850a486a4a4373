// The task-graph language: what is accepted, and what is rejected with which position and reason.
#include "simulator/io/graph_reader.hpp"

#include <string>
#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;
using namespace dtfm::sim;

namespace {

/// Two hosts, two links, a route and a task, in four lines.
const std::string head = "host a\nhost b 2 ps\nlink up 1e6 0.1\nlink down 2e6 0 fatpipe\n";

std::string error_text(const std::string& text) {
  return error_message([&] { parse_task_graph(text, "g.txt"); });
}

/// Returns the error for a statement in the fifth line.
std::string error_text_after_head(const std::string& line) {
  return error_text(head + line);
}

}  // namespace

TEST_CASE("every statement is read") {
  const TaskGraph graph = parse_task_graph(
      head +
          "route a b up down  # one direction\n\r\n"
          "access b site down up\naccess a site up down\npipe site site down\n"
          "profile up lat 0 0.2 1 0.3 period 4\nprofile b speed 1 0\n"
          "fail link up 1 2\nfail host b 3\n"
          "config share rtt\nconfig weight_S 7\nconfig crosstraffic 1\n"
          "compute c a 3 prio -2.5\ndelay d 1 queue q after c\n"
          "flow f a b 1e3 after c,d queue p rate 5 stream\nflow g a b 1 queue q\nflow h b a 1\n",
      "g.txt");
  REQUIRE(graph.hosts.size() == 2);
  CHECK(graph.hosts[0].speed == 1);
  CHECK(graph.hosts[1].speed == 2);
  CHECK(graph.hosts[1].sharing == HostSharing::processor_sharing);
  CHECK(graph.links[0].latency == 0.1);
  CHECK(graph.links[1].sharing == Sharing::fatpipe);
  REQUIRE(graph.profiles.size() == 2);
  CHECK(graph.profiles[0].quantity == Profile::Quantity::latency);
  CHECK(graph.profiles[0].period == 4);
  CHECK(graph.profiles[0].steps[1].value == 0.3);
  CHECK(graph.profiles[1].quantity == Profile::Quantity::speed);
  CHECK(graph.profiles[1].targets[0].index == 1);
  CHECK(graph.failures[0].link == 0);
  CHECK(graph.failures[0].up == 2);
  CHECK(graph.failures[1].host == 1);
  CHECK(graph.model.weigh_by_latency);
  CHECK(graph.model.weight_s == 7);
  CHECK(graph.model.cross_traffic);
  REQUIRE(graph.tasks.size() == 5);
  CHECK(graph.tasks[0].priority == -2.5);
  CHECK(graph.tasks[1].queue == graph.tasks[3].queue);
  CHECK(graph.queues == 2);
  CHECK(graph.tasks[2].after_count == 2);
  CHECK(graph.tasks[2].rate == 5);
  CHECK(graph.tasks[2].streamed);
  CHECK_FALSE(graph.tasks[3].streamed);
  CHECK(graph.tasks[2].route == graph.tasks[3].route);
  CHECK(graph.routes[0].links == std::vector<int>{0, 1});     // the given route
  CHECK(graph.routes[1].links == std::vector<int>{1, 1, 1});  // up of b, the pipe, down of a
  CHECK(graph.routes[0].reverse == graph.routes[1].links);
  CHECK(graph.task_names[4] == "h");
}

TEST_CASE("presets set the documented model constants") {
  CHECK(parse_task_graph("config preset CM02\n", "g").model.window == 4194304);
  CHECK(parse_task_graph("config preset LV08\n", "g").model.latency_factor == 13.01);
  CHECK_FALSE(parse_task_graph("config preset LV08\nconfig preset maxmin\n", "g").model.weigh_by_latency);
  CHECK(parse_task_graph("", "g").tasks.empty());
}

TEST_CASE("invalid words are rejected with their position") {
  const std::pair<std::string, std::string> cases[] = {
      {"flwo f a b 1", "1: unknown statement `flwo`; did you mean `flow`?"},
      {"compute", "8: expected the name of a task; found the end of the line"},
      {"compute c", "10: expected host; found the end of the line"},
      {"compute c A 1", "11: undefined host `A`; did you mean `a`?"},
      {"compute c a x", "13: expected WORK, a number, 0 or more; found `x`"},
      {"compute c a -1", "13: expected WORK, a number, 0 or more; found `-1`"},
      {"compute c a nan", "13: expected WORK, a number, 0 or more; found `nan`"},
      {"compute c a inf", "13: expected WORK, a number, 0 or more; found `inf`"},
      {"compute c a 1e999", "13: expected WORK, a number, 0 or more; found `1e999`"},
      {"compute c a 1 aftr x", "15: unknown option `aftr`; did you mean `after`?"},
      {"compute c a 1 after c", "21: undefined task `c`"},
      {"compute c a 1 after d", "21: undefined task `d`"},
      {"compute c a 1 after ,", "21: expected ID,ID,… without blanks; found an empty one"},
      {"compute c a 1 after", "20: expected ID; found the end of the line"},
      {"compute c a 1 prio 1 prio 2", "22: prio is given twice"},
      {"compute c a 1 stream", "15: unknown option `stream`"},
      {"delay d 1 rate 3", "11: unknown option `rate`"},
      {"flow f a b 1 rate 0", "19: expected BYTES_PER_S, a number above 0; found `0`"},
      {"flow f a b 1", "1: no route from `a` to `b`: neither a route nor access links and a pipe"},
      {"host a", "6: there is already a host `a`"},
      {"host c 0", "8: expected SPEED, a number above 0; found `0`"},
      {"host c 1 lifo", "10: unknown kind of host `lifo`; did you mean `fifo`?"},
      {"host c 1 ps 2", "13: expected the end of the line; found `2`"},
      {"link up 1 1", "6: there is already a link `up`"},
      {"link m 1", "9: expected LATENCY; found the end of the line"},
      {"route a b", "10: expected link; found the end of the line"},
      {"route a b upp", "11: undefined link `upp`; did you mean `up`?"},
      {"route a b up\nroute a b down", "7: there is already a route between these hosts"},
      {"access a s up down\naccess a t up down", "8: host `a` already has its access links"},
      {"pipe s t up", "6: undefined site `s`"},
      {"profile up bw", "14: expected T; found the end of the line"},
      {"profile up bww 0 1", "12: unknown quantity `bww`; did you mean `bw`?"},
      {"profile up speed 0 1", "9: undefined host `up`"},
      {"profile a bw 0 1", "9: undefined link `a`"},
      {"profile up bw 0", "16: expected V; found the end of the line"},
      {"profile up bw 1 1 1 2", "19: expected a T after 1; found `1`"},
      {"profile up bw 0 -1", "17: expected V, a number, 0 or more; found `-1`"},
      {"profile up bw 0 1 2 1 period 2",
       "30: expected a period above 2, from the first T to the last; found `2`"},
      {"profile up bw 0 1 period", "25: expected P; found the end of the line"},
      {"fail lnk up 1", "6: unknown thing that fails `lnk`; did you mean `link`?"},
      {"fail link up 2 2", "16: expected a T_UP after 2; found `2`"},
      {"config share", "13: expected share; found the end of the line"},
      {"config shar rtt", "8: unknown setting `shar`; did you mean `share`?"},
      {"config bandwidth_factor 0", "25: expected bandwidth_factor, a number above 0; found `0`"},
      {"config preset LV09", "15: unknown preset `LV09`; did you mean `LV08`?"},
  };
  for (const auto& [line, message] : cases) {
    INFO(line);
    const bool second = line.find('\n') != std::string::npos;
    CHECK_THAT(error_text_after_head(line),
               contains(std::string("g.txt:") + (second ? "6:" : "5:") + message));
  }
}

TEST_CASE("two tasks of one name are rejected while queues and sites need no definition") {
  CHECK(error_text("delay d 1\ndelay d 2\n") == "g.txt:2:7: there is already a task `d`");
  CHECK(error_text("delay d 1 queue new\n") == "no error");
  CHECK(error_text(head + "access a x up down\n") == "no error");
}

TEST_CASE("bytes that are not text are rejected") {
  CHECK_THAT(error_text(std::string("host a\nhost b\0c\n", 16)), contains("g.txt:2:"));
  CHECK_THAT(error_text("host a\nhost \xff\n"), contains("g.txt:2:"));
}
