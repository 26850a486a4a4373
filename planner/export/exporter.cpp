#include "planner/export/exporter.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/export/export_readme.hpp"
#include "planner/export/expressible.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::exporter {

// One file each.
Exporter megatron_exporter();
Exporter torchtitan_exporter();
Exporter torchtitan_python_exporter();
Exporter deepspeed_exporter();
Exporter deepspeed_python_exporter();
Exporter dtfm_exporter();
Exporter flashflex_exporter();
Exporter varuna_exporter();
Exporter petals_exporter();
Exporter torchrun_exporter();
Exporter slurm_exporter();
Exporter openmpi_exporter();
Exporter kubernetes_exporter();
Exporter netem_exporter();

namespace {

/// Trainers and launchers that people ask for and that no plan can be handed over to, and why; and other
/// names of those that can.
struct OtherName {
  std::string_view name, why;
};
constexpr OtherName other_names[] = {
    {"k8s", "is called kubernetes here"},
    {"mpi", "is called openmpi here"},
    {"hexiscale", "is called flashflex here"},
    {"dt-fm", "is called dtfm here"},
    {"nanotron",
     "nanotron cuts layers by a cost of its own and has no way to say others, and asserts that a machine's "
     "ranks "
     "follow each other; use --to megatron or torchtitan"},
    {"swarm",
     "only 4 stages (head, body1, body2, tail) exist in swarm, and peers choose each other: there are no "
     "pipelines; "
     "use --to petals for stages of blocks"},
    {"hivemind",
     "hivemind forms its groups at run time, and no peer can be put into one; use --to petals or torchrun"},
    {"opendiloco",
     "pipeline parallel plans are not representable in opendiloco, where every GPU holds the whole model; "
     "use "
     "--to megatron"},
    {"accelerate", "accelerate has no pipelines, and equal GPUs on every machine; use --to torchtitan"},
    {"colossalai",
     "colossalai is told its stages in Python; use --to torchrun with --order pipeline-major, and "
     "num_layers_per_stage from rank_table.json"},
    {"galvatron",
     "galvatron is not among the targets; its ranks are stage-major: use --to torchrun, and pp_division from "
     "rank_table.json"},
    {"sailor", "sailor is not among the targets; use --to torchrun, and layers from rank_table.json"},
};

bool has_order(const Exporter& exporter, RankOrder order) {
  return !exporter.is_trainer ||
         std::find(exporter.orders.begin(), exporter.orders.end(), order) != exporter.orders.end();
}

/// Files of the same name, as launchers share them, must be the same.
void add_files(ExportFiles& files, ExportFiles more) {
  for (ExportFile& file : more) {
    const auto known =
        std::find_if(files.begin(), files.end(), [&](const ExportFile& it) { return it.name == file.name; });
    if (known == files.end())
      files.push_back(std::move(file));
    else
      DTFM_ASSERT(known->text == file.text);
  }
}

void check_read_back(const Handover& handover, const Exporter& exporter, const ExportFiles& files) {
  const ReadBack read = exporter.read_back(files, handover);
  DTFM_ASSERT(read.rows == rank_rows(handover));
  DTFM_ASSERT(read.micro_batches.empty() || read.micro_batches == micro_batch_counts(handover.plan));
}

/// Tensor-parallel groups are meant for the links inside a machine.
std::vector<std::string> tensor_notes(const Handover& handover) {
  const auto stage = stage_over_machines(handover);
  if (!stage) return {};
  return {
      fmt::format("the tensor-parallel devices of a stage {} are on several machines: trainers allow it, and "
                  "expect NVLink",
                  *stage)};
}

std::vector<std::string> compression_notes(const Handover& handover) {
  const Compression& compression = handover.job.compression;
  if (compression.activations == 1 && compression.gradients == 1) return {};
  return {fmt::format(
      "the plan counts on compression (activations to {:.4g}, gradients to {:.4g} of their bytes{}), which "
      "is "
      "not handed over: without it messages are longer than planned",
      compression.activations, compression.gradients, compression.slower_than ? ", on slow links" : "")};
}

}  // namespace

std::span<const Exporter> exporters() {
  static const std::vector<Exporter> table = {megatron_exporter(),
                                              torchtitan_exporter(),
                                              torchtitan_python_exporter(),
                                              deepspeed_exporter(),
                                              deepspeed_python_exporter(),
                                              dtfm_exporter(),
                                              flashflex_exporter(),
                                              varuna_exporter(),
                                              petals_exporter(),
                                              torchrun_exporter(),
                                              slurm_exporter(),
                                              openmpi_exporter(),
                                              kubernetes_exporter(),
                                              netem_exporter()};
  return table;
}

const Exporter& exporter_named(std::string_view name) {
  for (const OtherName& other : other_names)
    if (other.name == name) throw Error("--to", fmt::format("{}: {}", name, other.why));
  return io::row_named(exporters(), name, "--to", "unknown");
}

RankOrder common_order(std::span<const Exporter* const> targets, const std::optional<RankOrder>& asked) {
  const Exporter* trainer = nullptr;
  for (const Exporter* target : targets) {
    if (!target->is_trainer) continue;
    if (trainer && trainer != target)
      throw Error("--to", fmt::format("{} and {} are two trainers; name one, and a folder for each",
                                      trainer->name, target->name));
    trainer = target;
  }
  if (!trainer) return asked.value_or(RankOrder::stage_major);
  if (asked && !has_order(*trainer, *asked))
    refuse(trainer->name,
           fmt::format("ranks are {} there; leave --order out", order_name(trainer->orders.front())));
  return asked.value_or(trainer->orders.front());
}

ExportFiles exported(const Handover& handover, std::span<const Exporter* const> targets) {
  for (const Exporter* target : targets) target->check(handover);
  ExportFiles files = {{rank_table_file, rank_table_json(handover)}};
  for (const Exporter* target : targets) add_files(files, target->files(handover));
  for (const Exporter* target : targets) check_read_back(handover, *target, files);
  std::vector<std::string> notes = memory_notes(handover);
  for (std::string& note : export_notes(handover, targets)) notes.push_back(std::move(note));
  files.push_back({"README.md", export_readme(handover, targets, files, notes)});
  return files;
}

std::vector<std::string> memory_notes(const Handover& handover) {
  const auto lack = [](const io::EstimatedMemory& it) { return it.needed.value() - it.capacity.value(); };
  const auto lacks = [&](const io::EstimatedMemory& it) { return lack(it) > 0; };
  const auto worst =
      std::max_element(handover.memory.begin(), handover.memory.end(),
                       [&](const io::EstimatedMemory& a, const io::EstimatedMemory& b) { return lack(a) < lack(b); });
  if (worst == handover.memory.end() || !lacks(*worst)) return {};
  const auto count = std::count_if(handover.memory.begin(), handover.memory.end(), lacks);
  return {fmt::format(
      "the plan does not fit: by its own estimate {} of {} devices lack{} memory; {} needs {:.4g} GB and has "
      "{:.4g} GB",
      count, handover.memory.size(), count == 1 ? "s" : "", io::in_quotes(worst->device),
      worst->needed.value() / 1e9, worst->capacity.value() / 1e9)};
}

std::vector<std::string> export_notes(const Handover& handover, std::span<const Exporter* const> targets) {
  std::vector<std::string> notes = tensor_notes(handover);
  for (std::string& note : compression_notes(handover)) notes.push_back(std::move(note));
  for (const Exporter* target : targets)
    for (const std::string& note : target->notes(handover))
      notes.push_back(fmt::format("{}: {}", target->name, note));
  return notes;
}

const std::string& text_of(const ExportFiles& files, std::string_view name) {
  const auto file =
      std::find_if(files.begin(), files.end(), [&](const ExportFile& it) { return it.name == name; });
  DTFM_ASSERT(file != files.end());
  return file->text;
}

}  // namespace dtfm::exporter
