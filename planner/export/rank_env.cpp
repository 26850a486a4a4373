#include "planner/export/rank_env.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/error.hpp"
#include "planner/export/template_text.hpp"

namespace dtfm::exporter {

extern const std::string_view export_rank_env_sh;  // templates/rank-env.sh

namespace {

constexpr const char* file_name = "rank-env.sh";

std::vector<std::string> list_in(const std::string& script, std::string_view name) {
  return words_between_blanks(text_behind(script, name, ")"));
}

}  // namespace

ExportFile rank_env_file(const Handover& handover) {
  std::vector<int> gpus;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < handover.world(); ++rank) {
    gpus.push_back(handover.place(rank).gpu);
    addresses.push_back(handover.place(rank).address);
  }
  return {file_name,
          filled_in(export_rank_env_sh, {{"gpus", fmt::format("{}", fmt::join(gpus, " "))},
                                         {"addresses", fmt::format("{}", fmt::join(addresses, " "))},
                                         {"master", handover.master()},
                                         {"port", fmt::format("{}", handover.launch.port)}}),
          true};
}

void read_rank_env(const ExportFiles& files, std::vector<RankRow>& rows) {
  const std::string& script = text_of(files, file_name);
  const auto gpus = list_in(script, "\ngpus=("), addresses = list_in(script, "\nmachines=(");
  DTFM_ASSERT(gpus.size() == rows.size() && addresses.size() == rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    rows[rank].gpu = number_in_word(gpus[rank]);
    rows[rank].address = addresses[rank];
  }
}

}  // namespace dtfm::exporter
