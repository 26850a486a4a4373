// A topology of three sites with different GPUs.
#pragma once

namespace dtfm {

inline constexpr const char* three_sites = R"(version: 1
name: three-sites
sites:
  - {name: lab}
  - {name: cloud, uplink: 5 Gbps, downlink: 5 Gbps}
  - {name: home, uplink: 40 Mbps, downlink: 200 Mbps}
devices:
  - {site: lab, hosts: 2, gpus_per_host: 4, gpu: RTX-4090, price: 0.35 USD/h, host_uplink: 10 Gbps}
  - {site: cloud, hosts: 1, gpus_per_host: 8, gpu: A100-80GB, price: 1.80 USD/h}
  - {site: home, count: 2, gpu: RTX-3090, price: 0.15 USD/h}
links:
  - {within: host, latency: 10 us, bandwidth: 160 Gbps}
  - {within: lab, latency: 0.1 ms, bandwidth: 10 Gbps}
  - {within: home, latency: 0.5 ms, bandwidth: 1 Gbps}
  - {between: [lab, cloud], rtt: 24 ms, bandwidth: 1 Gbps, egress: 0.09 USD/GB}
  - {from: home, to: "*", rtt: 40 ms, bandwidth: 40 Mbps}
  - {from: "*", to: home, rtt: 40 ms, bandwidth: 200 Mbps}
)";

}  // namespace dtfm
