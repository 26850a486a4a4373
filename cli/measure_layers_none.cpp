#include <fmt/format.h>

#include "cli/measure_layers.hpp"
#include "planner/core/error.hpp"

namespace dtfm {

LayerProfile measured_layers(const MeasureRequest&) {
  throw Error(
      "", fmt::format("nothing can be measured, for this program was built without CUDA: {}", without_gpu));
}

}  // namespace dtfm
