#include "planner/export/rank_env.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "planner/export/script_template.hpp"

namespace dtfm::exporter {

extern const std::string_view export_rank_env_sh;  // templates/rank-env.sh

namespace {

constexpr const char* file_name = "rank-env.sh";

std::vector<std::string> read_list(const std::string& script, std::string_view name) {
  return split_words(text_after(script, name, ")"));
}

}  // namespace

ExportFile rank_env_file(const ExportBundle& bundle) {
  std::vector<int> gpus;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < bundle.world_size(); ++rank) {
    gpus.push_back(bundle.location(rank).gpu);
    addresses.push_back(bundle.location(rank).address);
  }
  return {file_name,
          fill_template(export_rank_env_sh, {{"gpus", fmt::format("{}", fmt::join(gpus, " "))},
                                             {"addresses", fmt::format("{}", fmt::join(addresses, " "))},
                                             {"master", bundle.master()},
                                             {"port", fmt::format("{}", bundle.launch.port)}}),
          true};
}

void read_rank_env(const ExportFiles& files, std::vector<RankRow>& rows) {
  const std::string& script = file_text(files, file_name);
  const auto gpus = read_list(script, "\ngpus=("), addresses = read_list(script, "\nmachines=(");
  DTFM_ASSERT(gpus.size() == rows.size() && addresses.size() == rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    rows[rank].gpu = parse_number(gpus[rank]);
    rows[rank].address = addresses[rank];
  }
}

}  // namespace dtfm::exporter
