// Reads job files (YAML), which describe what is trained and how.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/plan/job.hpp"
#include "core/io/text/named_file.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// Reads a job and the profiles that it names. Throws Error at file:line:column for unknown keys and for
/// values that are out of range or contradictory.
Job read_job(const std::filesystem::path& file, std::string_view referenced_by = {});
/// The same without the profiles that the job names, which need not exist.
Job read_job_without_profiles(const std::filesystem::path& file);
Job parse_job(std::string text, std::string file);
Job parse_job(const YamlDocument& document);

/// The `execution` of a plan file.
struct PlacedExecution {
  ExecutionConfig execution;
  std::string place;                          // position in the file
  std::map<std::string, std::string> places;  // by key, for example "compression.activations"
  SettingSet undecided;                       // settings that the file leaves open
};

/// Parses the `execution` of a plan for this job. The keys are those of jobs. Without `chunks`, `flush`,
/// `overlap` or `tied_embedding_sync` the plan has none, and without `iteration_barrier` it has one; other
/// missing settings are those of the job. Throws Error at the position of a bad one.
PlacedExecution parse_execution(const YamlDocument& document, const Job& job);

/// Replaces the model of `job`, and its name: by a preset, or by Hugging Face's config.json of this name.
/// `sequence` is the number of tokens per sequence, if given. Throws Error.
void replace_model(const std::string& model, std::optional<int> sequence, Job& job);
/// The same with the text of a config.json.
void replace_model(const NamedFile& config, std::optional<int> sequence, Job& job);

/// Changes the tokens per sequence of the model of `job`. Throws Error at `where` if it has no sequences, or
/// not as many positions.
void set_sequence(const std::string& where, int sequence, Job& job);

/// The job of configs/pretraining.yaml, which is compiled in: without a model of its own.
Job pretraining_job();

/// The job of configs/gpt3-xl.yaml, which is compiled in.
Job default_job();

}  // namespace dtfm::io
