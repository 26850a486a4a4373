// The default job with the settings of its publication.
#pragma once

#include "core/io/readers/job_reader.hpp"

namespace dtfm {

/// GPT-3 XL with the settings of Yuan et al. (NeurIPS 2022): micro-batches of one sequence, schedule gpipe,
/// gradient_sync sharded-ps. `io::default_job` leaves these to the planner.
inline Job published_job() {
  Job job = io::default_job();
  job.automatic = {};
  return job;
}

}  // namespace dtfm
