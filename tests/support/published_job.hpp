// The default job with the settings of its publication.
#pragma once

#include "planner/io/readers/job_reader.hpp"

namespace dtfm {

/// The default job as Yuan et al. (NeurIPS 2022) trained it: micro-batches of one sequence, schedule gpipe,
/// gradient_sync sharded-ps. The default job leaves these to the planner.
inline Job published_job() {
  Job job = io::default_job();
  job.automatic = {};
  return job;
}

}  // namespace dtfm
