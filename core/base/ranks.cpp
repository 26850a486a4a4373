#include "core/base/ranks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/byte_codec.hpp"

namespace dtfm {
namespace {

/// Returns the first of `options` that `others` do not contain.
std::optional<std::string> first_missing(const std::vector<std::string>& options,
                                         const std::vector<std::string>& others) {
  for (const std::string& option : options)
    if (std::find(others.begin(), others.end(), option) == others.end()) return option;
  return std::nullopt;
}

/// Returns how a rank's input differs from that of rank 0, and what to do; empty if it does not.
std::string difference_of(const RankInput& input, const RankInput& root) {
  if (input.version != root.version)
    return fmt::format("is version {}, but rank 0 is version {}; install the same version on all machines",
                       input.version, root.version);
  if (const auto option = first_missing(input.options, root.options))
    return fmt::format("has `{}`, which rank 0 does not have; start all ranks with the same options",
                       *option);
  if (const auto option = first_missing(root.options, input.options))
    return fmt::format("does not have `{}`, which rank 0 has; start all ranks with the same options",
                       *option);
  if (input.files != root.files)
    return "input files differ from those of rank 0; give all ranks the same files";
  return "";
}

}  // namespace

struct Ranks::Message {
  enum class Kind { synchronize, results, end } kind = Kind::synchronize;
  std::chrono::nanoseconds::rep elapsed_ns = 0;  // by the clock of the sender, since `begin_`
  std::string content;  // by kind: the input, the results, or the error of the sender
};

Ranks::Ranks(RankTransport& transport) : transport_(transport) {
  exchange({});
  begin_ = Clock::now();
  agreed_ = agreed_.zero();
}

std::vector<int> Ranks::tasks_of(int rank, int count) const {
  std::vector<int> tasks;
  for (int i = rank; i < count; i += size()) tasks.push_back(i);
  return tasks;
}

Ranks::Clock::time_point Ranks::now() const {
  return divides() ? begin_ + agreed_ : Clock::now();
}

/// Leaves the latest time of all ranks in `agreed_`. Sets `is_alone_` if there is no other rank any more.
std::optional<std::vector<Ranks::Message>> Ranks::exchange(const Message& own) {
  ByteWriter out;
  out.put(Message{own.kind, std::chrono::nanoseconds(Clock::now() - begin_).count(), own.content});
  const auto all = transport_.exchange(out.bytes());
  if (!all) {
    is_alone_ = is_broken_ = true;
    return std::nullopt;
  }
  ++rounds_;
  std::vector<Message> messages;
  for (const std::string& bytes : *all) {
    bytes_ += static_cast<long long>(bytes.size());
    const Message& it = messages.emplace_back(ByteReader(bytes).get<Message>());
    if (it.kind == Message::Kind::end) is_alone_ = has_ended_ = true;
  }
  // A task that saw its time limit pass must not be followed by a decision that the limit has not passed.
  for (const Message& it : messages) agreed_ = std::max(agreed_, std::chrono::nanoseconds(it.elapsed_ns));
  for (std::size_t rank = 0; rank < messages.size(); ++rank)
    if (messages[rank].kind == Message::Kind::end && own.kind != Message::Kind::end)
      throw Error(fmt::format("rank {}", rank), messages[rank].content.empty()
                                                    ? "ended although the others still expect results of it"
                                                    : messages[rank].content);
  return messages;
}

void Ranks::check_same_input(const RankInput& own) {
  if (!divides()) return;
  ByteWriter out;
  out.put(own);
  const auto all = exchange({Message::Kind::synchronize, 0, out.bytes()});
  if (!all) return;
  const RankInput root = ByteReader(all->front().content).get<RankInput>();
  thread_count_ = root.threads;
  for (std::size_t rank = 1; rank < all->size(); ++rank) {
    const RankInput input = ByteReader((*all)[rank].content).get<RankInput>();
    const std::string difference = difference_of(input, root);
    if (!difference.empty()) throw Error(fmt::format("rank {}", rank), difference);
    thread_count_ += input.threads;
  }
}

std::optional<std::vector<std::string>> Ranks::exchange_results(const std::string& own) {
  auto all = exchange({Message::Kind::results, 0, own});
  if (!all) return std::nullopt;
  std::vector<std::string> results;
  for (Message& it : *all) {
    DTFM_ASSERT(it.kind == Message::Kind::results);
    results.push_back(std::move(it.content));
  }
  return results;
}

void Ranks::finish(const std::string& error) {
  if (is_broken_ || has_ended_) return;
  exchange({Message::Kind::end, 0, error});
}

std::string message_of(const Error& error) {
  const std::string all = error.what();  // "where: what"
  return error.where().empty() ? all : all.substr(error.where().size() + 2);
}

}  // namespace dtfm
