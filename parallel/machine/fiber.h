// A computation with its own stack, which alternates with its caller on one thread.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

#include <ucontext.h>

namespace tp {

// Only the thread that first resumes a fiber may resume or destroy the fiber afterwards.
class Fiber {
 public:
  // The first resume() starts `work`. Throws ConfigError if there is no memory for a stack.
  explicit Fiber(std::function<void()> work);
  // If the work is paused, pause() throws inside it, so that the work's objects are destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  bool ended() const { return ended_; }
  // Whether the caller is running inside the fiber's work.
  bool is_running() const { return running_; }

  // Runs the work until it pauses or ends. The work must not have ended already. Rethrows any exception that
  // the work throws.
  void resume();
  // Pauses the work; call it only inside the work. Returns at the next resume().
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
