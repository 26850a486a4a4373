#include "planner/export/exporter.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_readme.hpp"
#include "planner/export/export_requirements.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::exporter {

// Each is defined in a file of its own.
Exporter pytorch_exporter();
Exporter megatron_exporter();
Exporter torchtitan_exporter();
Exporter deepspeed_exporter();
Exporter pytorch_pipelining_exporter();
Exporter dtfm_exporter();
Exporter petals_exporter();
Exporter torchrun_exporter();
Exporter slurm_exporter();
Exporter openmpi_exporter();
Exporter kubernetes_exporter();
Exporter netem_exporter();

namespace {

/// Trainers and launchers to which plans cannot be exported, with the reason and an alternative; and other
/// names of supported targets.
struct TargetHint {
  std::string_view name, hint;
};
constexpr TargetHint target_hints[] = {
    {"k8s", "is called kubernetes here"},
    {"mpi", "is called openmpi here"},
    {"dt-fm", "is called dtfm here"},
    {"nanotron",
     "nanotron splits layers by its own cost model, which cannot be overridden, and requires consecutive "
     "ranks "
     "on each machine; use --to megatron or torchtitan"},
    {"swarm",
     "only 4 stages (head, body1, body2, tail) exist, and peers choose each other, so pipelines are not "
     "fixed; "
     "use --to petals for stages of blocks"},
    {"hivemind",
     "hivemind forms its groups at run time, so peers cannot be assigned; use --to petals or torchrun"},
    {"opendiloco",
     "pipeline-parallel plans are not representable in opendiloco, where every GPU holds the whole model; "
     "use --to megatron"},
    {"accelerate",
     "accelerate has no pipeline parallelism and assumes equal GPUs on every machine; use --to torchtitan"},
    {"colossalai",
     "colossalai configures stages in Python; use --to torchrun with --order pipeline-major, and set "
     "num_layers_per_stage from rank_table.json"},
    {"galvatron",
     "galvatron is not supported directly; its ranks are stage-major: use --to torchrun, and set pp_division "
     "from rank_table.json"},
    {"sailor", "sailor is not supported directly; use --to torchrun, and take layers from rank_table.json"},
};

bool has_order(const Exporter& exporter, RankOrder order) {
  return !exporter.is_trainer ||
         std::find(exporter.orders.begin(), exporter.orders.end(), order) != exporter.orders.end();
}

/// Appends `added`. Launchers share some files; files of the same name must have the same text.
void add_files(ExportFiles& files, ExportFiles added) {
  for (ExportFile& file : added) {
    const auto known =
        std::find_if(files.begin(), files.end(), [&](const ExportFile& it) { return it.name == file.name; });
    if (known == files.end())
      files.push_back(std::move(file));
    else
      DTFM_ASSERT(known->text == file.text);
  }
}

void check_read_back(const ExportBundle& bundle, const Exporter& exporter, const ExportFiles& files) {
  const ReadBack read = exporter.read_back(files, bundle);
  DTFM_ASSERT(read.rows == rank_rows(bundle));
  DTFM_ASSERT(read.micro_batches.empty() || read.micro_batches == micro_batch_counts(bundle.plan));
  for (const ExportedSetting& it : exporter.settings) {
    if (it.form != SettingForm::file) continue;
    const auto value = read.settings.find(it.kind);
    DTFM_ASSERT(value != read.settings.end() && value->second == exported_value(bundle, it.kind));
  }
}

/// Warns of tensor-parallel groups that span machines: they need the fast links inside a machine.
std::vector<std::string> tensor_notes(const ExportBundle& bundle) {
  const auto stage = find_stage_across_machines(bundle);
  if (!stage) return {};
  return {
      fmt::format("the tensor-parallel devices of stage {} are on several machines: trainers allow this, "
                  "but expect NVLink",
                  *stage)};
}

/// NCCL chooses between rings and trees by itself, unless the target's own start script tells it.
std::vector<std::string> nccl_notes(const ExportBundle& bundle, std::span<const Exporter* const> targets) {
  const auto tells_nccl = [](const Exporter& target) {
    return !target.settings.empty() &&
           target.settings[at(static_cast<int>(Setting::gradient_sync))].form == SettingForm::built_in;
  };
  if (!uses_nccl_rings(bundle) || (targets.size() == 1 && tells_nccl(*targets.front()))) return {};
  return {"set NCCL_ALGO=Ring, because the plan's gradients go around rings"};
}

/// Only launchers need the note: a target that cannot compress has already removed compression.
std::vector<std::string> compression_notes(const ExportBundle& bundle) {
  const Compression& compression = bundle.job.execution.compression;
  if (compression.activations == 1 && compression.gradients == 1) return {};
  if (bundle.job.target && !traits(*bundle.job.target).compressions.empty()) return {};  // it compresses
  return {fmt::format(
      "the plan assumes compression (activations to {:.4g}, gradients to {:.4g} of their bytes{}), which is "
      "not exported: without it, messages are larger than planned",
      compression.activations, compression.gradients,
      compression.bandwidth_threshold ? ", on slow links" : "")};
}

}  // namespace

std::string_view name_of(Evidence evidence) {
  constexpr std::array names = {std::string_view("described only"),
                                std::string_view("configuration accepted"), std::string_view("trained")};
  return names.at(static_cast<std::size_t>(evidence));
}

std::span<const Exporter> exporters() {
  static const std::vector<Exporter> table = {
      pytorch_exporter(),   megatron_exporter(),           torchtitan_exporter(),
      deepspeed_exporter(), pytorch_pipelining_exporter(), dtfm_exporter(),
      petals_exporter(),    torchrun_exporter(),           slurm_exporter(),
      openmpi_exporter(),   kubernetes_exporter(),         netem_exporter()};
  return table;
}

const Exporter& find_exporter(std::string_view name) {
  for (const TargetHint& other : target_hints)
    if (other.name == name) throw Error("--to", fmt::format("{}: {}", name, other.hint));
  const bool is_known = std::any_of(exporters().begin(), exporters().end(),
                                    [&](const Exporter& it) { return it.name == name; });
  for (const RemovedTarget& it : removed_targets())
    if (it.name == name && !is_known) throw Error("--to", std::string(it.message));
  return io::find_row(exporters(), current_name(name), "--to", "unknown");
}

RankOrder choose_rank_order(std::span<const Exporter* const> targets,
                            const std::optional<RankOrder>& requested) {
  const Exporter* trainer = nullptr;
  for (const Exporter* target : targets) {
    if (!target->is_trainer) continue;
    if (trainer && trainer != target)
      throw Error("--to",
                  fmt::format("{} and {} are both trainers; export to each separately, into its own folder",
                              trainer->name, target->name));
    trainer = target;
  }
  if (!trainer) return requested.value_or(RankOrder::stage_major);
  if (requested && !has_order(*trainer, *requested))
    reject(trainer->name,
           fmt::format("ranks must be {}; omit --order", rank_order_name(trainer->orders.front())));
  return requested.value_or(trainer->orders.front());
}

ExportBundle run_on_trainer(ExportBundle bundle, std::span<const Exporter* const> targets) {
  for (const Exporter* target : targets) {
    if (!target->target) continue;
    TargetedPlan run = run_on_target(bundle.plan, bundle.job, *target->target);
    bundle.plan = std::move(run.plan);
    bundle.job = std::move(run.job);
    bundle.changes = std::move(run.changes);
    if (traits(*target->target).nccl_chooses_all_reduce) group_instances(bundle);
  }
  return bundle;
}

void check_expressible(const ExportBundle& bundle, std::span<const Exporter* const> targets) {
  for (const Exporter* target : targets) {
    if (target->target) check_runnable(traits(*target->target), bundle.plan, bundle.job);
    if (target->check) target->check(bundle);
  }
}

ExportFiles export_files(const ExportBundle& bundle, std::span<const Exporter* const> targets) {
  check_expressible(bundle, targets);
  ExportFiles files = {{rank_table_file, rank_table_json(bundle)}};
  for (const Exporter* target : targets) add_files(files, target->files(bundle));
  for (const Exporter* target : targets) check_read_back(bundle, *target, files);
  std::vector<std::string> notes = memory_notes(bundle);
  for (std::string& note : export_notes(bundle, targets)) notes.push_back(std::move(note));
  files.push_back({"README.md", export_readme(bundle, targets, files, notes)});
  return files;
}

std::vector<std::string> memory_notes(const ExportBundle& bundle) {
  const auto deficit_bytes = [](const io::EstimatedMemory& it) {
    return it.needed.value() - it.capacity.value();
  };
  const auto exceeds_capacity = [&](const io::EstimatedMemory& it) { return deficit_bytes(it) > 0; };
  const auto worst = std::max_element(bundle.memory.begin(), bundle.memory.end(),
                                      [&](const io::EstimatedMemory& a, const io::EstimatedMemory& b) {
                                        return deficit_bytes(a) < deficit_bytes(b);
                                      });
  if (worst == bundle.memory.end() || !exceeds_capacity(*worst)) return {};
  const auto count = std::count_if(bundle.memory.begin(), bundle.memory.end(), exceeds_capacity);
  return {fmt::format(
      "the plan does not fit: by its own estimate, {} of {} devices exceed{} memory; {} needs {:.4g} GB and "
      "has {:.4g} GB",
      count, bundle.memory.size(), count == 1 ? "s" : "", io::quote(worst->device),
      worst->needed.value() / 1e9, worst->capacity.value() / 1e9)};
}

std::vector<std::string> export_notes(const ExportBundle& bundle, std::span<const Exporter* const> targets) {
  std::vector<std::string> notes = tensor_notes(bundle);
  for (std::string& note : compression_notes(bundle)) notes.push_back(std::move(note));
  for (std::string& note : nccl_notes(bundle, targets)) notes.push_back(std::move(note));
  for (const Exporter* target : targets)
    for (const std::string& note : target->notes(bundle))
      notes.push_back(fmt::format("{}: {}", target->name, note));
  return notes;
}

const std::string& file_text(const ExportFiles& files, std::string_view name) {
  const auto file =
      std::find_if(files.begin(), files.end(), [&](const ExportFile& it) { return it.name == name; });
  DTFM_ASSERT(file != files.end());
  return file->text;
}

}  // namespace dtfm::exporter
