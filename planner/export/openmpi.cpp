// Open MPI's rankfile. Its slots are CPU cores: every rank gets all cores of its machine, so that none is
// pinned to a single core.
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "planner/export/rank_env.hpp"
#include "planner/export/script_template.hpp"
#include "planner/export/trainer_rank_mapping.hpp"
#include "core/io/readers/rank_file.hpp"

namespace dtfm::exporter {

extern const std::string_view export_openmpi_sh;  // templates/openmpi.sh

namespace openmpi {
namespace {

constexpr const char* rank_file = "rankfile";
constexpr const char* hosts_file = "hostfile";

ExportFiles files(const ExportBundle& bundle) {
  std::string ranks, hosts;
  for (int rank = 0; rank < bundle.world_size(); ++rank)
    ranks +=
        fmt::format("rank {}={} slot=0-{}\n", rank, bundle.location(rank).address, bundle.launch.cores - 1);
  for (const auto& [address, machine_ranks] : ranks_by_address(bundle))
    hosts += fmt::format("{} slots={}\n", address, machine_ranks.size());
  return {{"openmpi.sh",
           fill_template(export_openmpi_sh, {{"world", fmt::format("{}", bundle.world_size())}}), true},
          {rank_file, ranks},
          {hosts_file, hosts},
          rank_env_file(bundle)};
}

/// Uses the rankfile importer of dtfm-plan --score: the n ranks of a machine take its n slots in order.
ReadBack read_back(const ExportFiles& files, const ExportBundle& bundle) {
  std::vector<RankRow> rows = read_table_rows(files);
  read_rank_env(files, rows);
  Topology slots;
  std::vector<std::string> address_of;
  for (const auto& [address, ranks] : ranks_by_address(bundle))
    for (std::size_t slot = 0; slot < ranks.size(); ++slot) {
      slots.devices.emplace_back().id = ranks.size() == 1 ? address : fmt::format("{}:{}", address, slot);
      address_of.push_back(address);
    }
  io::InputErrors errors;
  io::DeviceResolver locations(slots, errors);
  const auto devices = io::read_ranks(file_text(files, rank_file), rank_file, locations, errors);
  errors.throw_if_any();
  DTFM_ASSERT(devices.size() == rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    rows[rank].address = address_of.at(static_cast<std::size_t>(devices[rank].value()));
  return {std::move(rows), {}};
}

std::vector<std::string> notes(const ExportBundle& bundle) {
  return {
      fmt::format("rankfile assumes {} CPU cores per machine (--cores); Open MPI fails if there are fewer",
                  bundle.launch.cores)};
}

}  // namespace
}  // namespace openmpi

Exporter openmpi_exporter() {
  using namespace openmpi;
  return {.name = "openmpi",
          .what = "Open MPI (4 or later): rankfile",
          .files = files,
          .read_back = read_back,
          .usage =
              "On one machine that can reach the others by ssh without a password: `./openmpi.sh PROGRAM "
              "ARGUMENT...`, such as\n"
              "`./openmpi.sh python3 train.py`.",
          .notes = notes};
}

}  // namespace dtfm::exporter
