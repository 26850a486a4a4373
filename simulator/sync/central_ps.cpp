#include "simulator/sync/sync.hpp"

namespace dtfm::sim {

std::vector<int> central_ps(GraphBuilder& builder, const Exchange& exchange) {
  ExchangeMessages messages(builder, exchange);
  const std::vector<int>& devices = exchange.devices;
  std::vector<int> received;
  for (std::size_t i = 1; i < devices.size(); ++i)
    received.push_back(messages.send(devices[i], devices[0], exchange.bytes, exchange.start, 0));
  std::vector<int> last = {messages.join(received, devices[0], 0)};
  for (std::size_t i = 1; i < devices.size(); ++i)
    last.push_back(messages.send(devices[0], devices[i], exchange.bytes, last[0], 1));
  return last;
}

}  // namespace dtfm::sim
