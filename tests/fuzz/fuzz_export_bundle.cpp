// Any bytes read as a plan file and, after a line of dashes, a file of addresses: every target either writes
// files that describe the plan or throws an Error. A broken invariant aborts the program.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "planner/export/exporter.hpp"
#include "planner/export/read_export_bundle.hpp"
#include "core/io/text/text_file.hpp"

namespace {

void hand_over(const dtfm::io::NamedFile& plan, const dtfm::exporter::ExportChoices& choices,
               const dtfm::exporter::Exporter& target) {
  const dtfm::exporter::Exporter* const targets[] = {&target};
  dtfm::exporter::ExportBundle bundle;
  try {
    bundle = dtfm::exporter::run_on_trainer(dtfm::exporter::read_export_bundle(plan, std::nullopt, choices),
                                            targets);
    dtfm::exporter::check_expressible(bundle, targets);
  } catch (const dtfm::Error&) {
    return;
  }
  dtfm::exporter::export_files(bundle, targets);  // a plan that is not rejected must be written
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view dashes = "\n---\n";
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(text.find(dashes), text.size());
  dtfm::exporter::ExportChoices choices;
  choices.launch.any_gpu = true;
  try {
    const dtfm::io::NamedFile plan{"plan.json", dtfm::io::validate_text(text.substr(0, end), "plan.json")};
    if (end < text.size())
      choices.hosts =
          dtfm::io::NamedFile{"hosts", dtfm::io::validate_text(text.substr(end + dashes.size()), "hosts")};
    for (const dtfm::exporter::Exporter& target : dtfm::exporter::exporters()) {
      choices.order = target.is_trainer ? target.orders.front() : dtfm::RankOrder::stage_major;
      hand_over(plan, choices, target);
    }
  } catch (const dtfm::Error& error) {
    if (error.where() != "plan.json" && !error.where().starts_with("plan.json:") &&
        !error.where().starts_with("hosts"))
      std::abort();  // the error is not about the input
  }
  return 0;
}
