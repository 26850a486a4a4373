#include "planner/export/host_addresses.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "core/io/readers/device_resolver.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::exporter {
namespace {

constexpr std::size_t max_address_length = 253;  // bytes, of a domain name (RFC 1035)
constexpr int max_gpus = 1 << 16;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_address(std::string_view text) {
  const auto is_allowed = [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= max_address_length && is_letter_or_digit(text.front()) &&
         std::all_of(text.begin(), text.end(), is_allowed);
}

using Addresses = std::map<std::string, std::string, std::less<>>;

/// Position of the comment in a line. A comment begins at a # after a blank, because names may contain #.
std::size_t find_comment(const std::string& line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return i;
  return line.npos;
}

class HostsFile {
 public:
  HostsFile(const io::NamedFile& file, const std::vector<std::string>& ids) : file_(file) {
    for (const std::string& id : ids) known_.emplace(io::host_name(id));
  }

  Addresses read() {
    std::istringstream text(file_.text);
    std::size_t number = 0;
    for (std::string line; std::getline(text, line);) read(++number, line.substr(0, find_comment(line)));
    return std::move(addresses_);
  }

 private:
  [[noreturn]] void fail(std::size_t line, std::size_t column, const std::string& what) const {
    throw Error(io::position(file_.path, line, column + 1), what);
  }

  /// Parses one line. The last word is the address, because a machine's name may contain blanks.
  void read(std::size_t number, const std::string& line) {
    constexpr const char* blanks = " \t\r";
    const std::size_t begin = line.find_first_not_of(blanks), last = line.find_last_not_of(blanks);
    if (begin == line.npos) return;
    const std::size_t gap = line.find_last_of(blanks, last);
    if (gap == line.npos || gap < begin) fail(number, begin, "expected `MACHINE ADDRESS`; found one word");
    const std::string host = line.substr(begin, line.find_last_not_of(blanks, gap) + 1 - begin),
                      address = line.substr(gap + 1, last - gap);
    if (!known_.contains(host))
      fail(number, begin,
           fmt::format("the plan has no machine {}; {}", io::quote(host),
                       io::suggestion(host, {known_.begin(), known_.end()})));
    if (!is_address(address))
      fail(number, gap + 1,
           fmt::format("{} is not an address: use letters, digits, `.`, `_` and `-`", io::quote(address)));
    if (!addresses_.emplace(host, address).second)
      fail(number, begin, fmt::format("machine {} is listed twice", io::quote(host)));
  }

  const io::NamedFile& file_;
  std::set<std::string, std::less<>> known_;
  Addresses addresses_;
};

/// Host and GPU index of a device id, without address: `gc` and 1 for gc:1, `gb` and 0 for gb.
GpuLocation parse_location(const std::string& id, const std::string& plan_file) {
  GpuLocation location{std::string(io::host_name(id)), "", 0};
  if (location.host.size() == id.size()) return location;
  const char* begin = id.data() + location.host.size() + 1;
  const char* end = id.data() + id.size();
  const auto [stop, status] = std::from_chars(begin, end, location.gpu);
  if (status != std::errc() || stop != end || begin == end || location.gpu < 0 || location.gpu >= max_gpus)
    throw Error(plan_file, fmt::format("device {}: expected a GPU number after the `:`", io::quote(id)));
  return location;
}

std::string default_address(std::string host, const std::string& plan_file) {
  std::replace(host.begin(), host.end(), '/', '-');
  if (!is_address(host))
    throw Error(plan_file,
                fmt::format("{} is not a valid host name; give addresses with --hosts", io::quote(host)));
  return host;
}

void check_unique(const std::vector<GpuLocation>& locations, const std::vector<std::string>& ids,
                  std::size_t used, const std::string& plan_file) {
  std::map<std::string, std::string> host_of;
  std::map<std::pair<std::string, int>, std::string> id_of;
  for (std::size_t i = 0; i < used; ++i) {
    const auto [host, new_address] = host_of.emplace(locations[i].address, locations[i].host);
    if (!new_address && host->second != locations[i].host)
      throw Error(plan_file,
                  fmt::format("machines {} and {} have the same address, {}; give addresses with --hosts",
                              io::quote(host->second), io::quote(locations[i].host), locations[i].address));
    const auto [id, new_gpu] = id_of.emplace(std::pair(locations[i].host, locations[i].gpu), ids[i]);
    if (!new_gpu)
      throw Error(plan_file, fmt::format("devices {} and {} are the same GPU, number {} of machine {}",
                                         io::quote(id->second), io::quote(ids[i]), locations[i].gpu,
                                         io::quote(locations[i].host)));
  }
}

}  // namespace

std::vector<GpuLocation> locate_gpus(const std::vector<std::string>& ids, std::size_t used,
                                     const std::optional<io::NamedFile>& hosts,
                                     const std::string& plan_file) {
  Addresses addresses;
  if (hosts) addresses = HostsFile(*hosts, ids).read();
  std::vector<GpuLocation> locations;
  for (const std::string& id : ids) {
    GpuLocation location = parse_location(id, plan_file);
    const auto known = addresses.find(location.host);
    if (known != addresses.end())
      location.address = known->second;
    else if (hosts && locations.size() < used)
      throw Error(hosts->path, fmt::format("no address for machine {}", io::quote(location.host)));
    else if (locations.size() < used)
      location.address = default_address(location.host, plan_file);
    locations.push_back(std::move(location));
  }
  check_unique(locations, ids, used, plan_file);
  return locations;
}

}  // namespace dtfm::exporter
