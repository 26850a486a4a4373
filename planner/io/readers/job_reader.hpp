// Job files (YAML): what is trained and how.
#pragma once

#include <filesystem>
#include <string>

#include "planner/core/job.hpp"

namespace dtfm::io {

/// Throws Error at file:line:column for what is misspelt, out of range or contradictory.
Job read_job(const std::filesystem::path& file, std::string_view referenced_by = {});
/// The same without the profiles that it names, which need not be there.
Job read_job_without_profiles(const std::filesystem::path& file);
Job parse_job(std::string text, std::string file);

/// configs/gpt3-xl.yaml, which is part of the program.
Job default_job();

}  // namespace dtfm::io
