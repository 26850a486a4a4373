#include "cli/common/verification_formatting.hpp"

#include <fmt/format.h>

namespace dtfm::cli {

std::string format_verification(const sim::SimReport& report) {
  const sim::VerificationReport& found = *report.verification;
  double computing = 0, corrupt = 0;
  for (const sim::DeviceReport& device : report.devices) computing += device.compute_s;
  for (const sim::CaughtPeer& peer : found.caught) corrupt += static_cast<double>(peer.calls);
  const std::string text = fmt::format(
      "{} calls verified, {} not; {:.3g} % of the compute time, {:.4g} GB sent again", found.verified,
      found.unverified, computing > 0 ? 100 * found.compute_s / computing : 0, found.bytes / 1e9);
  if (found.caught.empty()) return text;
  return text + fmt::format("; {} detected as faulty, after {:.4g} corrupt calls on average",
                            found.caught.size(), corrupt / static_cast<double>(found.caught.size()));
}

}  // namespace dtfm::cli
