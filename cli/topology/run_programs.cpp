#include "cli/topology/run_programs.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.hpp"

namespace dtfm::cli {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto terminate_time = 5s;  // in which a program may clean up after SIGTERM
// A background process may hold the output of an ended program open, as the master of shared ssh connections.
constexpr auto open_output_time = 500ms;

class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() { close(); }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

struct Pipe {
  FileDescriptor read_end, write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("", std::string("no pipe: ") + std::strerror(errno));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// The environment of this process, with `more` instead of variables of the same name.
std::vector<std::string> merged_environment(const std::vector<std::string>& more) {
  std::vector<std::string> all;
  for (char** it = environ; *it != nullptr; ++it) {
    const std::string variable = *it, name = variable.substr(0, variable.find('=') + 1);
    if (std::none_of(more.begin(), more.end(), [&](const std::string& own) { return own.starts_with(name); }))
      all.push_back(variable);
  }
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// A program that was started and may have ended.
class Child {
 public:
  Child(ProgramRun& run, const RunLimits& limits) : run_(&run), limits_(&limits) { start(); }
  Child(Child&&) = default;
  Child& operator=(Child&&) = default;

  bool is_done() const { return process_ < 0; }

  void add_to(std::vector<pollfd>& polled) const {
    for (const FileDescriptor* it : {&output_, &errors_})
      if (it->is_open()) polled.push_back({it->number(), POLLIN, 0});
  }

  /// Reads what is there, and notices the end and limits of the program.
  void advance() {
    read(output_, run_->output, limits_->max_output, true);
    read(errors_, run_->errors, max_errors, false);
    if (!ended_) wait();
    const auto now = Clock::now();
    if (ended_ && (!(output_.is_open() || errors_.is_open()) || now >= *ended_ + open_output_time))
      return finish();
    if (kill_at_ && now >= *kill_at_) return kill_now();
    if (!ended_ && limits_->timeout_s > 0 &&
        now >= begin_ + std::chrono::duration<double>(limits_->timeout_s))
      terminate(ProgramEnd::timed_out);
  }

  void terminate(ProgramEnd why) {
    if (is_done() || kill_at_) return;
    run_->end = why;
    ::kill(-process_, SIGTERM);
    kill_at_ = Clock::now() + terminate_time;
  }

 private:
  static constexpr std::size_t max_errors = 1 << 16;

  void start() {
    Pipe output = make_pipe(), errors = make_pipe();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output.write_end.number(), STDOUT_FILENO);
    if (!run_->shows_errors)
      ::posix_spawn_file_actions_adddup2(&actions, errors.write_end.number(), STDERR_FILENO);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t defaults;
    ::sigemptyset(&defaults);
    for (const int kind : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) ::sigaddset(&defaults, kind);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    std::vector<std::string> arguments = run_->arguments, environment = merged_environment(run_->environment);
    const int problem = ::posix_spawnp(&process_, arguments.front().c_str(), &actions, &attributes,
                                       pointers_to(arguments).data(), pointers_to(environment).data());
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    begin_ = Clock::now();
    if (problem != 0) {
      process_ = -1;
      run_->end = ProgramEnd::not_found;
      run_->errors = std::strerror(problem);
      return;
    }
    output_ = std::move(output.read_end);
    if (!run_->shows_errors) errors_ = std::move(errors.read_end);
  }

  void read(FileDescriptor& from, std::string& text, std::size_t limit, bool is_limited) {
    std::array<char, 1 << 16> part{};
    while (from.is_open()) {
      const ssize_t size = ::read(from.number(), part.data(), part.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return;
      if (size <= 0) return from.close();
      const std::size_t room = limit - text.size();
      text.append(part.data(), std::min(room, static_cast<std::size_t>(size)));
      if (static_cast<std::size_t>(size) <= room || !is_limited) continue;
      return terminate(ProgramEnd::too_long);
    }
  }

  void wait() {
    int status = 0;
    const pid_t found = ::waitpid(process_, &status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return;
    ended_ = Clock::now();
    if (found < 0) run_->end = ProgramEnd::killed;  // how it ended is not known
    if (found < 0) return;
    if (WIFEXITED(status)) run_->status = WEXITSTATUS(status);
    if (WIFSIGNALED(status) && run_->end == ProgramEnd::exited) run_->end = ProgramEnd::killed;
  }

  /// Ends also what the program left running in its group, if that holds the output open.
  void finish() {
    if (output_.is_open() || errors_.is_open()) ::kill(-process_, SIGKILL);
    output_.close();
    errors_.close();
    process_ = -1;
  }

  /// Does not wait for long: a driver that hangs keeps its caller from ending.
  void kill_now() {
    ::kill(-process_, SIGKILL);
    for (int attempt = 0; attempt < 20 && !ended_; ++attempt) {
      ::usleep(10'000);
      wait();
    }
    finish();
  }

  ProgramRun* run_;
  const RunLimits* limits_;
  pid_t process_ = -1;
  FileDescriptor output_, errors_;
  Clock::time_point begin_;
  std::optional<Clock::time_point> ended_, kill_at_;
};

}  // namespace

void run_programs(std::span<ProgramRun> runs, const RunLimits& limits, const StopFunction& stop,
                  const std::function<void(std::size_t)>& on_end) {
  constexpr int poll_ms = 50;
  std::vector<Child> children;
  std::size_t started = 0, ended = 0;
  bool is_stopping = false;
  while (ended < runs.size()) {
    while (!is_stopping && started < runs.size() && children.size() < limits.max_at_a_time)
      children.emplace_back(runs[started++], limits);
    std::vector<pollfd> polled;
    for (const Child& child : children) child.add_to(polled);
    ::poll(polled.data(), polled.size(), poll_ms);
    for (Child& child : children)
      if (!child.is_done()) child.advance();
    const std::size_t before = children.size();
    children.erase(
        std::remove_if(children.begin(), children.end(), [](const Child& it) { return it.is_done(); }),
        children.end());
    ended += before - children.size();
    if (before > children.size() && on_end) on_end(ended);
    if (!is_stopping && is_stopped(stop)) {
      is_stopping = true;
      for (Child& child : children) child.terminate(ProgramEnd::killed);
    }
    if (is_stopping && children.empty()) throw WorkStopped();
  }
  if (is_stopped(stop)) throw WorkStopped();
}

}  // namespace dtfm::cli
