// A thread that communicates while the main thread computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tp {

// Executes pieces of work one at a time, in the order of submission. While this thread has work, no other
// thread may call MPI (MPI_THREAD_SERIALIZED); see wait_until_idle.
//
// MPI makes progress only during MPI calls. This thread calls MPI about every 50 microseconds and sleeps in
// between, because the main thread computes on the same processors.
class CommunicationThread {
 public:
  CommunicationThread();
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  // A piece of work, started as soon as earlier work has ended. The destructor waits until the work has
  // ended, so the work may use any data that outlives this object.
  class Pending {
   public:
    Pending(CommunicationThread& thread, std::function<void()> work);
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    // Returns when the work has ended. Rethrows an exception from this work or earlier work: after a failure,
    // no further work is executed, because the ranks are out of step.
    void wait();

   private:
    friend class CommunicationThread;
    CommunicationThread& thread_;
    std::function<void()> work_;
    bool done_ = false;
    std::exception_ptr error_;
  };

  // Returns when all work has ended. If any work has failed, rethrows its exception.
  void wait_until_idle();

 private:
  void run();
  void execute_first(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  // protects everything below and the members of Pending
  std::condition_variable changed_;
  std::deque<Pending*> pending_;
  std::exception_ptr error_;  // from the first piece of work that failed
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tp
