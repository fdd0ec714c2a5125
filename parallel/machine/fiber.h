// A computation with its own stack. It alternates with its caller on one thread.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

#include <ucontext.h>

namespace tp {

// Once a thread has resumed a fiber, only that thread may resume or destroy it.
class Fiber {
 public:
  // The first resume() starts `work`. Throws ConfigError if there is not enough address space for a stack.
  explicit Fiber(std::function<void()> work);
  // If the work is paused, its pause() throws, so that the work's objects are destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  bool ended() const { return ended_; }
  // Whether the caller is running inside the fiber's work.
  bool is_running() const { return running_; }

  // Runs the work until it pauses or ends. Rethrows any exception from the work. The work must not have ended
  // already.
  void resume();
  // Pauses the work until the next resume(). Call it only from within the work.
  void pause();

 private:
  class Abandoned {};
  struct Side {
    ucontext_t context{};
    const void* stack = nullptr;
    std::size_t stack_bytes = 0;
    void* sanitizer = nullptr;  // ThreadSanitizer's handle
  };

  static void enter(unsigned low, unsigned high);
  void run();
  void switch_sides(Side& from, Side& to, bool for_ever);

  std::function<void()> work_;
  std::unique_ptr<void, void (*)(void*)> stack_;
  Side inside_;
  Side outside_;
  bool begun_ = false;
  bool running_ = false;
  bool ended_ = false;
  bool abandoned_ = false;
  std::exception_ptr error_;
};

}  // namespace tp
