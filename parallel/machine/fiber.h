// A computation with a stack of its own, which takes turns with another one on the same thread.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

#include <ucontext.h>

namespace tp {

// Not to be resumed, or destroyed, from another thread than the one that first resumed it.
class Fiber {
 public:
  // `work` begins with the first resume(). Throws ConfigError if there is no memory for a stack.
  explicit Fiber(std::function<void()> work);
  // If work is paused, pause() throws in it, so that its objects are destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  bool ended() const { return ended_; }
  // Whether the caller is the work.
  bool is_running() const { return running_; }

  // Goes on with the work, which has not ended, until it pauses or ends. Throws what the work throws.
  void resume();
  // Called by the work: returns when it is resumed.
  void pause();

 private:
  class Abandoned {};
  struct Side {
    ucontext_t context{};
    const void* stack = nullptr;
    std::size_t stack_bytes = 0;
    void* sanitizer = nullptr;  // the thread sanitizer's name of it
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
