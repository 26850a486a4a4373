// Times all-reduces over MPI: the simulator's ring and tree (simulator/sync), message by message, and
// MPI_Allreduce.
//   usage: all_reduce BYTES REPETITIONS    (prints `ring|tree|mpi SECONDS` of each repetition after a
//   warm-up)
// A time is from a barrier until the last rank has the sum. The sum itself is checked.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
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

/// Reduce-scatter, then all-gather: 2 (n − 1) steps of one part each, to the next rank and from the previous
/// one.
void ring(std::vector<float>& values) {
  const int count = static_cast<int>(values.size()) / ranks;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  std::vector<float> received(static_cast<std::size_t>(count));
  for (int step = 0; step < ranks - 1; ++step) {
    MPI_Sendrecv(part(values, rank - step), count, MPI_FLOAT, next, 0, received.data(), count, MPI_FLOAT,
                 before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    add(part(values, rank - step - 1), received);
  }
  for (int step = 0; step < ranks - 1; ++step)
    MPI_Sendrecv(part(values, rank + 1 - step), count, MPI_FLOAT, next, 0, part(values, rank - step), count,
                 MPI_FLOAT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/// Binomial tree to rank 0 and back; the root of the largest subtree first.
void tree(std::vector<float>& values) {
  const int count = static_cast<int>(values.size());
  std::vector<float> received(values.size());
  int reach = 1;
  for (; reach < ranks; reach *= 2) {
    if (rank % (2 * reach) == reach)
      MPI_Send(values.data(), count, MPI_FLOAT, rank - reach, 0, MPI_COMM_WORLD);
    if (rank % (2 * reach) != 0 || rank + reach >= ranks) continue;
    MPI_Recv(received.data(), count, MPI_FLOAT, rank + reach, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    add(values.data(), received);
  }
  for (reach /= 2; reach > 0; reach /= 2) {
    if (rank % (2 * reach) == 0 && rank + reach < ranks)
      MPI_Send(values.data(), count, MPI_FLOAT, rank + reach, 0, MPI_COMM_WORLD);
    if (rank % (2 * reach) == reach)
      MPI_Recv(values.data(), count, MPI_FLOAT, rank - reach, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
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

void time_it(const char* name, void (*all_reduce)(std::vector<float>&), std::size_t size, int warm_ups,
             int repetitions) {
  for (int repetition = -warm_ups; repetition < repetitions; ++repetition) {
    std::vector<float> values(size, static_cast<float>(rank + 1));
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    all_reduce(values);
    double seconds = MPI_Wtime() - begin, longest = 0;
    MPI_Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    check(values);
    if (rank == 0 && repetition >= 0) std::printf("%s %.6f\n", name, longest);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3 || ranks < 2) {
    std::fprintf(stderr, "usage: mpirun -np N all_reduce BYTES REPETITIONS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const std::size_t per_part = std::stoul(argv[1]) / sizeof(float) / static_cast<std::size_t>(ranks);
  const std::size_t size = per_part * static_cast<std::size_t>(ranks);
  const int repetitions = std::atoi(argv[2]);
  time_it("ring", ring, size, 1, repetitions);
  time_it("tree", tree, size, 1, repetitions);
  time_it("mpi", mpi, size, 0, 1);
  MPI_Finalize();
}
