// Plans in any of the formats that are read: this program's own, a table, and Megatron-LM's flags with its
// ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"
#include "planner/io/text/named_file.hpp"

namespace dtfm::io {

enum class PlanFormat { json, csv, megatron };

/// A plan file as it was read: once, for it may be a pipe, and both job and plan are made from it.
struct PlanSource {
  PlanFormat format = PlanFormat::json;
  NamedFile file;
  std::optional<NamedFile> ranks;  // of Megatron's flags
};

/// Reads `file`, and `ranks` where it is given. The format is told by what is in the file: a JSON object
/// (parse_plan), the header of a table (read_csv_plan), flags of Megatron (read_megatron_plan). Throws Error
/// for a file that is none of these, for Megatron's flags without ranks and for ranks beside another format.
PlanSource read_plan_source(const std::string& file, const std::optional<std::string>& ranks);
PlanSource make_plan_source(NamedFile file, std::optional<NamedFile> ranks);

/// The job that a plan says it is for; nothing where it does not, as others' formats never do. Throws Error
/// as parse_plan_job.
std::optional<Job> plan_job(const PlanSource& source);

struct PlanAndNotes {
  Plan plan;
  std::vector<std::string> notes;  // what a user should know of it
};

/// The plan, checked against topology and job. Notes are about formats of others: that nobody gave the job
/// (`job_is_given`), devices without work, tensor-parallel groups over several hosts, what was passed over.
/// Throws Error with all that is wrong with a plan of another format (Faults), the first thing with one of
/// our own.
PlanAndNotes read_any_plan(const PlanSource& source, const Topology& topology, const Job& job,
                           bool job_is_given = true);

}  // namespace dtfm::io
