// Topologies from one line of text: "8xH100@oregon, 2x4xA100-80GB@ohio" (dtfm-plan --gpus).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

/// The text of a topology file.
///
/// `gpus` lists machines, with commas between them: GPUSxGPU@SITE is one machine with so many GPUs of
/// configs/gpus.yaml, HOSTSxGPUSxGPU@SITE several such machines, and HOSTSxKIND@SITE machines of
/// configs/hosts.yaml. Without @SITE, the site is called `local`.
///
/// `links` are texts such as "oregon-ohio: 40 ms 2 Gbps" (one-way latency and bandwidth between two sites),
/// "oregon: 0.1 ms 25 Gbps" (between the machines of a site), and "*: 50 ms 1 Gbps" (all others). GPUs of one
/// machine have the `interconnect` of their GPU, direct links `direct_share` of it, and the latencies of
/// configs/hosts.yaml.
///
/// Throws Error at "--gpus" or "--link", also if the links between two machines are not given.
std::string format_cluster(std::string_view gpus, const std::vector<std::string>& links);

}  // namespace dtfm::io
