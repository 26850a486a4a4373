// Emulates a wide-area network between network namespaces of this machine, on kernels without netem, too.
// Every namespace gets an interface `wan0` (a TUN device). Packets between two of them wait in the queue of
// their link, leave it at its rate, and arrive after its latency. Linux only; needs root and /dev/net/tun.
//
// usage: emulate_network SPEC
//
// Lines of SPEC:
//   machine NAMESPACE ADDRESS                           IPv4, all in one /24
//   link FROM TO LATENCY_MS RATE_MBPS QUEUE_MS          one direction; every ordered pair needs one
//
// Prints `ready` when the interfaces are up, and ends with its parent or when it is interrupted. Exit codes:
// 0 done, 2 bad usage or no permission.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <queue>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using Nanoseconds = std::int64_t;

/// `virtio_net_hdr` of <linux/virtio_net.h>, which C++ cannot include.
struct PacketHeader {
  std::uint8_t flags = 0, segmentation = 0;  // segmentation 0: none
  std::uint16_t headers_bytes = 0, segment_bytes = 0, checksum_start = 0, checksum_offset = 0;
};

constexpr std::size_t ip_header_bytes = 20, max_packet_bytes = 65536 + sizeof(PacketHeader);
constexpr int packets_per_turn = 64;

struct Link {
  Nanoseconds latency = 0, max_wait = 0;
  double ns_per_byte = 0;
  Nanoseconds free_at = 0;  // when the packets in the queue will have left it
};

struct Machine {
  std::string name;
  in_addr_t address;
  int tun;
};

struct Packet {
  Nanoseconds due;
  std::uint64_t number;  // packets due at the same time keep their order
  int to;
  std::string bytes;
};

struct Later {
  bool operator()(const Packet& a, const Packet& b) const {
    return std::pair(a.due, a.number) > std::pair(b.due, b.number);
  }
};

volatile std::sig_atomic_t is_interrupted = 0;

[[noreturn]] void fail(const std::string& problem) {
  std::fprintf(stderr, "emulate_network: %s\n", problem.c_str());
  std::exit(2);
}

[[noreturn]] void fail_with_errno(const std::string& what) {
  fail(what + ": " + std::strerror(errno));
}

Nanoseconds now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

void set_address(int socket, ifreq& request, unsigned long operation, in_addr_t address) {
  sockaddr_in value{};
  value.sin_family = AF_INET;
  value.sin_addr.s_addr = address;
  std::memcpy(&request.ifr_addr, &value, sizeof value);
  if (ioctl(socket, operation, &request) != 0) fail_with_errno("wan0 cannot be given an address");
}

/// Opens the device in the namespace. Packets have a header that says how the kernel would segment them,
/// because TCP may hand over several segments as one packet, which costs far less processor time than one
/// after another.
int open_tun(const std::string& name, in_addr_t address) {
  const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  const int other = open(("/var/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (other < 0 || setns(other, CLONE_NEWNET) != 0) fail_with_errno("network namespace " + name);
  const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tun < 0) fail_with_errno("/dev/net/tun");
  ifreq request{};
  std::strcpy(request.ifr_name, "wan0");
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(tun, TUNSETIFF, &request) != 0) fail_with_errno("wan0 in " + name);
  if (ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) fail_with_errno("wan0 in " + name);
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  set_address(control, request, SIOCSIFADDR, address);
  set_address(control, request, SIOCSIFNETMASK, inet_addr("255.255.255.0"));
  request.ifr_qlen = 4096;
  ioctl(control, SIOCSIFTXQLEN, &request);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(control, SIOCSIFFLAGS, &request) != 0) fail_with_errno("wan0 in " + name);
  close(control);
  if (setns(own, CLONE_NEWNET) != 0) fail_with_errno("own network namespace");
  close(own);
  close(other);
  return tun;
}

class Network {
 public:
  explicit Network(const char* spec) {
    std::ifstream file(spec);
    if (!file) fail(std::string(spec) + ": cannot be read");
    std::string line;
    for (int number = 1; std::getline(file, line); ++number)
      if (!line.empty() && !read_line(line))
        fail(std::string(spec) + ":" + std::to_string(number) + ": bad line: " + line);
    if (links_.size() != machines_.size() * (machines_.size() - 1))
      fail(std::string(spec) + ": not every ordered pair has a link");
  }

  void run() {
    const int poll = epoll_create1(EPOLL_CLOEXEC),
              timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    watch(poll, timer, no_machine);
    for (std::size_t i = 0; i < machines_.size(); ++i)
      watch(poll, machines_[i].tun, static_cast<std::uint32_t>(i));
    std::puts("ready");
    std::fflush(stdout);
    while (!is_interrupted) {
      deliver_due_packets();
      set_timer(timer);
      std::array<epoll_event, 16> events{};
      const int count = epoll_wait(poll, events.data(), events.size(), -1);
      for (int i = 0; i < count; ++i)
        if (events[static_cast<std::size_t>(i)].data.u32 != no_machine)
          accept_packets(events[static_cast<std::size_t>(i)].data.u32);
    }
  }

 private:
  static constexpr std::uint32_t no_machine = UINT32_MAX;

  bool read_line(const std::string& line) {
    std::istringstream words(line);
    std::string kind, from, to;
    words >> kind >> from >> to;
    if (kind == "machine") {
      const in_addr_t address = inet_addr(to.c_str());
      if (!words || address == INADDR_NONE) return false;
      numbers_[from] = by_address_[address] = static_cast<int>(machines_.size());
      machines_.push_back({from, address, open_tun(from, address)});
      return true;
    }
    double latency_ms = 0, rate_mbps = 0, queue_ms = 0;
    words >> latency_ms >> rate_mbps >> queue_ms;
    if (kind != "link" || !words || !(rate_mbps > 0) || numbers_.count(from) == 0 || numbers_.count(to) == 0)
      return false;
    links_[{numbers_[from], numbers_[to]}] = {static_cast<Nanoseconds>(latency_ms * 1e6),
                                              static_cast<Nanoseconds>(queue_ms * 1e6), 8e3 / rate_mbps};
    return true;
  }

  static void watch(int poll, int file, std::uint32_t number) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = number;
    epoll_ctl(poll, EPOLL_CTL_ADD, file, &event);
  }

  void deliver_due_packets() {
    while (!packets_.empty() && packets_.top().due <= now()) {
      const Packet& packet = packets_.top();
      // A namespace that is being deleted loses its packets, as a machine that is switched off does.
      [[maybe_unused]] const auto written =
          write(machines_[static_cast<std::size_t>(packet.to)].tun, packet.bytes.data(), packet.bytes.size());
      packets_.pop();
    }
  }

  void set_timer(int timer) const {
    const Nanoseconds due =
        packets_.empty() ? now() + 100'000'000 : std::max<Nanoseconds>(packets_.top().due, 1);
    itimerspec at{};
    at.it_value.tv_sec = due / 1'000'000'000;
    at.it_value.tv_nsec = due % 1'000'000'000;
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, nullptr);
  }

  void accept_packets(std::uint32_t from) {
    for (int i = 0; i < packets_per_turn; ++i) {
      const ssize_t size = read(machines_[from].tun, buffer_.data(), buffer_.size());
      if (size <= 0) return;
      accept(static_cast<int>(from), static_cast<std::size_t>(size));
    }
  }

  void accept(int from, std::size_t size) {
    PacketHeader header;
    if (size < sizeof header + ip_header_bytes) return;
    std::memcpy(&header, buffer_.data(), sizeof header);
    const char* ip = buffer_.data() + sizeof header;
    in_addr_t destination = 0;
    std::memcpy(&destination, ip + 16, sizeof destination);
    const auto to = by_address_.find(destination);
    if ((ip[0] >> 4) != 4 || to == by_address_.end() || to->second == from) return;
    Link& link = links_.at({from, to->second});
    const Nanoseconds time = now();
    link.free_at = std::max(link.free_at, time);
    if (link.free_at - time > link.max_wait) return;  // dropped
    link.free_at += static_cast<Nanoseconds>(
        link.ns_per_byte * static_cast<double>(bytes_on_line(header, size - sizeof header)));
    packets_.push(
        {link.free_at + link.latency, next_number_++, to->second, std::string(buffer_.data(), size)});
  }

  /// Every segment of a packet has headers of its own on the line.
  static std::size_t bytes_on_line(const PacketHeader& header, std::size_t size) {
    if (header.segmentation == 0 || header.segment_bytes == 0 || header.headers_bytes >= size) return size;
    const std::size_t payload = size - header.headers_bytes,
                      segments = (payload + header.segment_bytes - 1) / header.segment_bytes;
    return payload + segments * header.headers_bytes;
  }

  std::vector<Machine> machines_;
  std::map<std::string, int> numbers_;
  std::map<in_addr_t, int> by_address_;
  std::map<std::pair<int, int>, Link> links_;
  std::priority_queue<Packet, std::vector<Packet>, Later> packets_;
  std::uint64_t next_number_ = 0;
  std::array<char, max_packet_bytes> buffer_{};
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) fail("usage: emulate_network SPEC");
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, [](int) { is_interrupted = 1; });
  static Network network(arguments[1]);
  // Packets must not be late because other processes compute. Without permission they may be.
  sched_param priority{};
  priority.sched_priority = 1;
  sched_setscheduler(0, SCHED_FIFO, &priority);
  network.run();
}
