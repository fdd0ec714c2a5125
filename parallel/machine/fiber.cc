#include "parallel/machine/fiber.h"

#include "tp/internal/require.h"

#include <cassert>
#include <cstdint>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define TP_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TP_ADDRESS_SANITIZER
#endif
#endif
#if defined(TP_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(TP_SANITIZE_THREADS)
#include <sanitizer/tsan_interface.h>
#endif

namespace tp {
namespace {

// The default stack size of a main thread.
constexpr std::size_t kStackBytes = std::size_t{8} << 20;

// Reserves a stack with a guard page at its low end: an overflow ends the process instead of corrupting
// memory.
void* make_stack() {
  void* const stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  require<ConfigError>(
      stack != MAP_FAILED,
      "cannot reserve a stack of {} MiB: expected enough address space, found too little; raise "
      "the limit (ulimit -v)",
      kStackBytes >> 20);
  ::mprotect(stack, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), PROT_NONE);
  return stack;
}

void remove_stack(void* stack) {
#if defined(TP_ADDRESS_SANITIZER)
  // Otherwise, the next mapping at this address would still be poisoned.
  __asan_unpoison_memory_region(stack, kStackBytes);
#endif
  ::munmap(stack, kStackBytes);
}

}  // namespace

Fiber::Fiber(std::function<void()> work) : work_(std::move(work)), stack_(make_stack(), &remove_stack) {
  inside_.stack = stack_.get();
  inside_.stack_bytes = kStackBytes;
#if defined(TP_SANITIZE_THREADS)
  inside_.sanitizer = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  if (begun_ && !ended_) {
    abandoned_ = true;
    switch_sides(outside_, inside_, false);
  }
#if defined(TP_SANITIZE_THREADS)
  __tsan_destroy_fiber(inside_.sanitizer);
#endif
}

void Fiber::resume() {
  assert(!running_ && !ended_);
  if (!begun_) {
    begun_ = true;
    ::getcontext(&inside_.context);
    inside_.context.uc_stack.ss_sp = stack_.get();
    inside_.context.uc_stack.ss_size = kStackBytes;
    // makecontext passes only ints, so the pointer is split in two.
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    ::makecontext(&inside_.context, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
                  static_cast<unsigned>(self), static_cast<unsigned>(std::uint64_t{self} >> 32));
  }
  switch_sides(outside_, inside_, false);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Fiber::pause() {
  assert(running_);
  switch_sides(inside_, outside_, false);
  if (abandoned_) throw Abandoned();
}

void Fiber::enter(unsigned low, unsigned high) {
  auto* const self = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>((std::uint64_t{high} << 32) | low));
#if defined(TP_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_.stack, &self->outside_.stack_bytes);
#endif
  self->run();
  self->switch_sides(self->inside_, self->outside_, true);
}

void Fiber::run() {
  try {
    work_();
  } catch (const Abandoned&) {
  } catch (...) {
    error_ = std::current_exception();
  }
  ended_ = true;
}

// Returns after the other side has switched back.
void Fiber::switch_sides(Side& from, Side& to, [[maybe_unused]] bool for_ever) {
  running_ = &to == &inside_;
#if defined(TP_ADDRESS_SANITIZER)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_stack, to.stack, to.stack_bytes);
#endif
#if defined(TP_SANITIZE_THREADS)
  from.sanitizer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.sanitizer, 0);
#endif
  ::swapcontext(&from.context, &to.context);
#if defined(TP_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fake_stack, &to.stack, &to.stack_bytes);
#endif
}

}  // namespace tp
