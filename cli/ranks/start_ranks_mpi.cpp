// The implementation with MPI: every rank is an MPI process.
#include <chrono>
#include <limits>
#include <string>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <mpi.h>

#include "cli/common/interrupt.hpp"
#include "cli/common/launcher.hpp"
#include "cli/common/print_error.hpp"
#include "cli/ranks/run_on_ranks.hpp"

namespace dtfm::cli {
namespace {

// MPI counts bytes by int.
constexpr int max_bytes = std::numeric_limits<int>::max();
constexpr const char* too_long =
    "results sent between ranks exceed the MPI limit of 2 GiB; start one process, without mpirun or srun";

void silence() {
  const int null = ::open("/dev/null", O_WRONLY);
  if (null < 0) return;
  ::dup2(null, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  ::close(null);
}

class MpiTransport : public RankTransport {
 public:
  explicit MpiTransport(std::string_view program) : program_(program) {
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
      throw Error(
          "",
          "MPI cannot be initialized; start the processes with the mpirun or srun of the MPI library that "
          "this program is linked with (see ldd), or start one process without them");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (rank_ != 0) silence();
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;
  /// MPI_Finalize waits for all ranks, so it must not be called if one may be lost.
  ~MpiTransport() override {
    if (!is_alone_) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::optional<std::vector<std::string>> exchange(const std::string& own) override {
    if (own.size() > max_bytes) throw Error("", too_long);
    const int length = static_cast<int>(own.size());
    std::vector<int> lengths(static_cast<std::size_t>(size_)), offsets;
    MPI_Request request = MPI_REQUEST_NULL;
    const auto collected_lengths = [&] {
      return MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
    };
    if (!complete(collected_lengths, request)) return std::nullopt;
    long long total = 0;
    for (const int it : lengths) {
      offsets.push_back(static_cast<int>(total));
      total += it;
    }
    if (total > max_bytes) throw Error("", too_long);
    std::string all(static_cast<std::size_t>(total), 0);
    const auto collected_bytes = [&] {
      return MPI_Iallgatherv(own.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                             MPI_CHAR, MPI_COMM_WORLD, &request);
    };
    if (!complete(collected_bytes, request)) return std::nullopt;
    std::vector<std::string> messages;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      messages.push_back(
          all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
    return messages;
  }

 private:
  /// Starts an operation and waits for its end. Waiting by MPI_Wait would occupy a core and could not be
  /// interrupted. Returns false if the process is interrupted or the operation fails.
  template <class Start>
  bool complete(const Start& start, MPI_Request& request) {
    if (interrupt_flag()) return leave(interrupted);
    if (start() != MPI_SUCCESS) return leave(failed);
    constexpr int eager_tests = 50;
    constexpr auto pause = std::chrono::microseconds(100);
    for (int test = 0;; ++test) {
      int is_done = 0;
      if (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return leave(failed);
      if (is_done) return true;
      if (interrupt_flag()) return leave(interrupted);
      if (test < eager_tests)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(pause);
    }
  }

  /// Makes this process end alone, with its best result so far. Returns false.
  bool leave(std::string_view why) {
    if (!is_alone_)
      print_error(fmt::format("{}: {}; continuing without the other ranks, to write the best result so far\n",
                              program_, why));
    is_alone_ = true;
    request_interrupt();
    return false;
  }

  static constexpr std::string_view interrupted =
      "interrupted by a signal, perhaps because another rank has ended (see the messages of the launcher)";
  static constexpr std::string_view failed =
      "MPI cannot reach the other ranks, perhaps because one has ended (see the messages of the launcher)";

  std::string program_;
  int rank_ = 0, size_ = 1;
  bool is_alone_ = false;
};

}  // namespace

std::unique_ptr<RankTransport> start_ranks(std::string_view program) {
  if (launch_of_environment().size == 1) return nullptr;
  return std::make_unique<MpiTransport>(program);
}

}  // namespace dtfm::cli
