// Reads plans in any supported format: dtfm's own JSON, a CSV table, or Megatron-LM's flags with a rank file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/io/text/named_file.hpp"

namespace dtfm::io {

enum class PlanFormat { json, csv, megatron };

/// A plan file. It is read only once, because it may be a pipe, and both job and plan are taken from it.
struct PlanSource {
  PlanFormat format = PlanFormat::json;
  NamedFile file;                     // without the text of a JSON file
  std::optional<NamedFile> ranks;     // only with Megatron flags
  std::optional<PlanFile> json = {};  // only of a JSON file
};

/// Reads `file`, and `ranks` if given. The content of the file determines the format: a JSON object
/// (PlanFile), the header of a table (read_csv_plan) or Megatron flags (read_megatron_plan). Throws Error for
/// any other file, text that is not JSON, Megatron flags without ranks, and ranks with another format.
PlanSource read_plan_source(const std::string& file, const std::optional<std::string>& ranks);
PlanSource make_plan_source(NamedFile file, std::optional<NamedFile> ranks);

/// The job that a plan file contains; nullopt if it contains none, which is always so for formats other than
/// JSON. Throws Error as PlanFile::job does.
std::optional<Job> plan_job(const PlanSource& source);

/// Parses the plan and checks it against topology and job. The notes say that no job was given (if
/// `job_is_given` is false and the file has none) and, for formats other than JSON, which devices are unused,
/// which tensor-parallel groups span several hosts, and which flags were ignored. Throws Error with all
/// errors of a plan in another format (InputErrors), or with the first error of a JSON plan.
PlanAndNotes read_any_plan(const PlanSource& source, const Topology& topology, const Job& job,
                           bool job_is_given = true);

}  // namespace dtfm::io
