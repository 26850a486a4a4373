#include <fmt/format.h>

#include "cli/profile/measure_layers.hpp"
#include "core/base/error.hpp"

namespace dtfm::cli {

LayerProfile measure_layers(const MeasureRequest&) {
  throw Error("",
              fmt::format("nothing can be measured: this program was built without CUDA; {}", no_gpu_advice));
}

}  // namespace dtfm::cli
