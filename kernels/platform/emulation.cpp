#include "kernels/platform/emulation.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define DTFM_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DTFM_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef DTFM_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// Saves the registers that a callee must preserve (System V ABI) on the stack of `from`, and restores those
// of `to`. swapcontext also switches the signal mask: its system calls took three quarters of the time of an
// emulated kernel.
extern "C" void dtfm_switch_stack(void** from, void* to);
asm(R"(
.text
.local dtfm_switch_stack
.type dtfm_switch_stack, @function
dtfm_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size dtfm_switch_stack, . - dtfm_switch_stack
)");
#endif

namespace dtfm::kernels::emulation {
namespace {

constexpr std::size_t shared_alignment = 1024;
constexpr std::size_t stack_bytes = 128 * 1024;
constexpr std::size_t lanes = 32;

struct Copy {
  void* to;
  const void* from;  // null: write zeros
};

#if defined(__x86_64__)
/// Where a flow of control continues.
class Context {
 public:
  static void switch_between(Context& from, Context& to) { dtfm_switch_stack(&from.top_, to.top_); }

  void start_at(void (*function)(), std::byte* stack, std::size_t bytes) {
    // From the top of the stack: no return address of `function`, its own address, and six registers.
    void** const top =
        reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(stack + bytes) & ~std::uintptr_t{15});
    top[-2] = reinterpret_cast<void*>(function);
    top_ = top - 8;
  }

 private:
  void* top_ = nullptr;
};
#else
class Context {
 public:
  static void switch_between(Context& from, Context& to) { swapcontext(&from.context_, &to.context_); }

  void start_at(void (*function)(), std::byte* stack, std::size_t bytes) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, function, 0);
  }

 private:
  ucontext_t context_{};
};
#endif

/// A flow of control with its own stack. AddressSanitizer is told of every switch.
struct Flow {
  Context context;
  const void* stack = nullptr;
  std::size_t size = 0;
#ifdef DTFM_ADDRESS_SANITIZER
  void* fake_stack = nullptr;
#endif
};

/// A barrier for `expected` threads.
struct Rendezvous {
  int expected = 0;
  int arrived = 0;
  unsigned generation = 0;
};

struct Fiber {
  Flow flow;
  std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(stack_bytes);
  bool done = false;
  const Rendezvous* waiting_at = nullptr;  // set until the barrier moves to its next generation
  unsigned generation = 0;
  std::vector<std::vector<Copy>> copies{1};  // groups, oldest first; the last is still open
  std::vector<std::vector<std::function<void()>>> products{1};  // likewise

  bool ready() const { return !done && (waiting_at == nullptr || waiting_at->generation != generation); }
};

struct Warp {
  Rendezvous rendezvous;
  std::byte slots[2][lanes * lane_bytes];
};

struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;  // stacks are reused from block to block
  std::vector<Warp> warps;
  std::vector<std::byte> shared;  // with slack for alignment
  Rendezvous barrier;
  Flow main;
  const std::function<void()>* kernel = nullptr;
  std::size_t current = 0;
  std::size_t threads = 0;
  std::size_t alive = 0;
  std::string error;
  Schedule schedule = Schedule::late;
};

Block block;  // the running block: launches neither nest nor overlap

/// Must be called first whenever a flow resumes. `previous` has just been left, and its stack becomes known.
void arrive([[maybe_unused]] Flow& here, [[maybe_unused]] Flow* previous) {
#ifdef DTFM_ADDRESS_SANITIZER
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(here.fake_stack, &bottom, &size);
  if (previous != nullptr && previous->stack == nullptr) {
    previous->stack = bottom;
    previous->size = size;
  }
#endif
}

void switch_flow(Flow& from, Flow& to) {
#ifdef DTFM_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.size);
#endif
  Context::switch_between(from.context, to.context);
  arrive(from, nullptr);
}

void complete_copy(const Copy& copy) {
  if (copy.from == nullptr)
    std::memset(copy.to, 0, 16);
  else
    std::memcpy(copy.to, copy.from, 16);
}

bool runs_in_reverse() {
  return block.schedule == Schedule::early;
}

Fiber& current() {
  return *block.fibers[block.current];
}

/// Returns the index of the thread that runs next, or `threads` if all wait. Prefers the same warp as long as
/// one of its threads can run: a warp then runs as far ahead of the others as barriers permit, which exposes
/// missing barriers.
std::size_t next_ready() {
  const std::size_t first = block.current / lanes * lanes, size = std::min(lanes, block.threads - first);
  const auto find = [](std::size_t from, std::size_t begin, std::size_t count) {
    for (std::size_t i = 1; i <= count; ++i) {
      const std::size_t step = runs_in_reverse() ? count - i : i;
      const std::size_t candidate = begin + (from - begin + step) % count;
      if (block.fibers[candidate]->ready()) return candidate;
    }
    return block.threads;
  };
  const std::size_t in_warp = find(block.current, first, size);
  return in_warp < block.threads ? in_warp : find(block.current, 0, block.threads);
}

void yield_turn() {
  Fiber& self = current();
  if (block.alive == 0) return switch_flow(self.flow, block.main);
  const std::size_t next = next_ready();
  if (next == block.threads) fail("not all threads reach a barrier");
  block.current = next;
  threadIdx.x = static_cast<unsigned>(next);
  if (&current() != &self) switch_flow(self.flow, current().flow);
}

void wait_at(Rendezvous& rendezvous) {
  if (++rendezvous.arrived == rendezvous.expected) {
    rendezvous.arrived = 0;
    ++rendezvous.generation;
    return;
  }
  Fiber& self = current();
  self.waiting_at = &rendezvous;
  self.generation = rendezvous.generation;
  yield_turn();
  self.waiting_at = nullptr;
}

/// Removes a thread that has finished from the number that others wait for.
void withdraw_from(Rendezvous& rendezvous) {
  if (--rendezvous.expected == rendezvous.arrived && rendezvous.arrived > 0) {
    rendezvous.arrived = 0;
    ++rendezvous.generation;
  }
}

/// Runs a thread of one block after another, because creating a fiber takes longer than most kernels.
void fiber_main() {
  arrive(current().flow, &block.main);
  for (;;) {
    (*block.kernel)();
    if (current().products.size() > 1 || !current().products.back().empty())
      fail("a thread ends without waiting for its products");
    current().done = true;
    --block.alive;
    withdraw_from(block.barrier);
    withdraw_from(block.warps[block.current / lanes].rendezvous);
    yield_turn();
  }
}

void make_fiber() {
  block.fibers.push_back(std::make_unique<Fiber>());
  Fiber& fiber = *block.fibers.back();
  fiber.flow.stack = fiber.stack.get();
  fiber.flow.size = stack_bytes;
  fiber.flow.context.start_at(fiber_main, fiber.stack.get(), stack_bytes);
}

void run_block(std::size_t shared_bytes) {
  block.shared.assign(shared_bytes + shared_alignment, std::byte{0xff});  // NaN in every format
  block.warps.assign((block.threads + lanes - 1) / lanes, Warp{});
  block.barrier = {static_cast<int>(block.threads), 0, 0};
  for (std::size_t i = 0; i < block.threads; ++i) {
    if (i == block.fibers.size()) make_fiber();
    Fiber& fiber = *block.fibers[i];
    fiber.done = false;
    fiber.waiting_at = nullptr;
    fiber.copies.resize(1);
    fiber.copies[0].clear();
    fiber.products.resize(1);
    fiber.products[0].clear();
    ++block.warps[i / lanes].rendezvous.expected;
  }
  block.alive = block.threads;
  block.current = runs_in_reverse() ? block.threads - 1 : 0;
  threadIdx = {static_cast<unsigned>(block.current), 0, 0};
  switch_flow(block.main, current().flow);
  if (block.error.empty()) return;
  block.fibers.clear();  // they are stopped in the middle of the failed kernel
  throw DeviceError(block.error);
}

}  // namespace

void set_schedule(Schedule schedule) {
  block.schedule = schedule;
}

void run_grid(Grid grid, unsigned threads, std::size_t shared_bytes, const std::function<void()>& kernel) {
  if (threads == 0 || threads > 1024 || shared_bytes > device_limits().shared_bytes || grid.x == 0 ||
      grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535)
    throw DeviceError("kernel launch: invalid configuration");
  block.kernel = &kernel;
  block.threads = threads;
  block.error.clear();
  blockDim = {threads, 1, 1};
  gridDim = {grid.x, grid.y, grid.z};
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block(shared_bytes);
      }
}

void* shared_bytes() {
  void* memory = block.shared.data();
  std::size_t space = block.shared.size();
  return std::align(shared_alignment, space - shared_alignment, memory, space);
}

void block_barrier() {
  wait_at(block.barrier);
}

void fail(const char* what) {
  block.error = what;
  for (auto& fiber : block.fibers) fiber->done = true;  // none of them resumes
  block.alive = 0;
  yield_turn();
  std::abort();  // never reached: a failed block does not resume
}

const std::byte* exchange_lanes(const void* own_value, std::size_t bytes) {
  Warp& warp = block.warps[block.current / lanes];
  std::byte* slots = warp.slots[warp.rendezvous.generation % 2];
  if (bytes != 0) std::memcpy(slots + (block.current % lanes) * lane_bytes, own_value, bytes);
  wait_at(warp.rendezvous);
  return slots;
}

void enqueue_copy(void* to, const void* from) {
  if (block.schedule == Schedule::early) return complete_copy({to, from});
  current().copies.back().push_back({to, from});
}

void commit_copies() {
  current().copies.emplace_back();
}

void wait_copies(int groups) {
  auto& copies = current().copies;
  while (copies.size() > static_cast<std::size_t>(groups) + 1) {
    for (const Copy& copy : copies.front()) complete_copy(copy);
    copies.erase(copies.begin());
  }
}

void start_product(std::function<void()> product) {
  if (block.schedule == Schedule::early) return product();
  current().products.back().push_back(std::move(product));
}

void commit_products() {
  current().products.emplace_back();
}

void wait_products(int groups) {
  auto& products = current().products;
  while (products.size() > static_cast<std::size_t>(groups) + 1) {
    for (const auto& product : products.front()) product();
    products.erase(products.begin());
  }
}

}  // namespace dtfm::kernels::emulation
