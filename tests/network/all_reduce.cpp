// Times all-reduces over MPI: the simulator's ring, tree and sharded parameter server (core/collectives),
// message by message, and MPI_Allreduce.
//   usage: all_reduce BYTES[,BYTES...] REPETITIONS [IDLE_S [ALGORITHM...]]
// Prints `ALGORITHM BYTES SECONDS` of each repetition. A time is from the common start until the last rank
// has the sum. All ranks start at the same time of the machine's clock, IDLE_S [1] seconds after a barrier,
// so they must run on one machine, and IDLE_S must be several round trips. One more repetition warms up.
// The sum is checked.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

int rank, ranks;

float* part(std::vector<float>& values, int index) {
  return values.data() + values.size() / static_cast<std::size_t>(ranks) *
                             static_cast<std::size_t>((index % ranks + ranks) % ranks);
}

void add(float* sum, const std::vector<float>& received) {
  for (std::size_t i = 0; i < received.size(); ++i) sum[i] += received[i];
}

MPI_Request send(const float* values, int count, int to) {
  MPI_Request request;
  MPI_Isend(values, count, MPI_FLOAT, to, 0, MPI_COMM_WORLD, &request);
  return request;
}

MPI_Request receive(float* values, int count, int from) {
  MPI_Request request;
  MPI_Irecv(values, count, MPI_FLOAT, from, 0, MPI_COMM_WORLD, &request);
  return request;
}

/// Waits without occupying a core, which ranks on the same machine and its emulated network need.
void finish(std::vector<MPI_Request> requests) {
  for (int done = 0;;) {
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done) return;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// Reduce-scatter, then all-gather: 2 (n − 1) steps of one part each, to the next rank and from the previous
/// one.
void ring(std::vector<float>& values) {
  const int count = static_cast<int>(values.size()) / ranks;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  std::vector<float> received(static_cast<std::size_t>(count));
  for (int step = 0; step < ranks - 1; ++step) {
    finish({receive(received.data(), count, before), send(part(values, rank - step), count, next)});
    add(part(values, rank - step - 1), received);
  }
  for (int step = 0; step < ranks - 1; ++step)
    finish({receive(part(values, rank - step), count, before),
            send(part(values, rank + 1 - step), count, next)});
}

/// Binomial tree to rank 0 and back; the root of the largest subtree first.
void tree(std::vector<float>& values) {
  const int count = static_cast<int>(values.size());
  std::vector<float> received(values.size());
  int reach = 1;
  for (; reach < ranks; reach *= 2) {
    if (rank % (2 * reach) == reach) finish({send(values.data(), count, rank - reach)});
    if (rank % (2 * reach) != 0 || rank + reach >= ranks) continue;
    finish({receive(received.data(), count, rank + reach)});
    add(values.data(), received);
  }
  for (reach /= 2; reach > 0; reach /= 2) {
    if (rank % (2 * reach) == 0 && rank + reach < ranks) finish({send(values.data(), count, rank + reach)});
    if (rank % (2 * reach) == reach) finish({receive(values.data(), count, rank - reach)});
  }
}

/// Rank i sums part i, which all others send to it, then sends the sum to all others.
void sharded(std::vector<float>& values) {
  const int count = static_cast<int>(values.size()) / ranks;
  std::vector<std::vector<float>> received(static_cast<std::size_t>(ranks - 1));
  std::vector<MPI_Request> requests;
  for (int step = 1; step < ranks; ++step) {
    auto& from = received[static_cast<std::size_t>(step - 1)];
    from.resize(static_cast<std::size_t>(count));
    requests.push_back(receive(from.data(), count, (rank + ranks - step) % ranks));
  }
  for (int step = 1; step < ranks; ++step)
    requests.push_back(send(part(values, rank + step), count, (rank + step) % ranks));
  finish(requests);
  for (const auto& from : received) add(part(values, rank), from);
  requests.clear();
  for (int step = 1; step < ranks; ++step)
    requests.push_back(receive(part(values, rank - step), count, (rank + ranks - step) % ranks));
  for (int step = 1; step < ranks; ++step)
    requests.push_back(send(part(values, rank), count, (rank + step) % ranks));
  finish(requests);
}

void mpi(std::vector<float>& values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
}

void check(const std::vector<float>& values) {
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  for (const float value : values)
    if (value != sum) {
      std::fprintf(stderr, "rank %d has %g in place of %g\n", rank, static_cast<double>(value),
                   static_cast<double>(sum));
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns a time at which all ranks have arrived here and know it, and waits for it.
double common_start(double idle_s) {
  MPI_Barrier(MPI_COMM_WORLD);
  double start = now(), latest = 0;
  MPI_Allreduce(&start, &latest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  latest += idle_s;
  std::this_thread::sleep_for(std::chrono::duration<double>(latest - now()));
  return latest;
}

struct Algorithm {
  const char* name;
  void (*all_reduce)(std::vector<float>&);
};
constexpr Algorithm algorithms[] = {{"ring", ring}, {"tree", tree}, {"sharded", sharded}, {"mpi", mpi}};

void time_it(const Algorithm& algorithm, std::size_t size, int repetitions, double idle_s) {
  for (int repetition = -1; repetition < repetitions; ++repetition) {
    std::vector<float> values(size, static_cast<float>(rank + 1));
    const double start = common_start(idle_s);
    algorithm.all_reduce(values);
    const double end = now();
    double last = 0;
    MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    check(values);
    if (rank != 0 || repetition < 0) continue;
    std::printf("%s %zu %.6f\n", algorithm.name, size * sizeof(float), last - start);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 3 || ranks < 2) {
    std::fprintf(stderr,
                 "usage: mpirun -np N all_reduce BYTES[,BYTES...] REPETITIONS [IDLE_S [ALGORITHM...]]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int repetitions = std::atoi(argv[2]);
  const double idle_s = argc > 3 ? std::atof(argv[3]) : 1;
  std::istringstream sizes(argv[1]);
  for (std::string bytes; std::getline(sizes, bytes, ',');)
    for (const Algorithm& algorithm : algorithms) {
      if (argc > 4 && std::find(argv + 4, argv + argc, std::string(algorithm.name)) == argv + argc) continue;
      const std::size_t per_part = std::stoul(bytes) / sizeof(float) / static_cast<std::size_t>(ranks);
      time_it(algorithm, per_part * static_cast<std::size_t>(ranks), repetitions, idle_s);
    }
  MPI_Finalize();
}
