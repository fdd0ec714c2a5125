// A thread that communicates while the main thread computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tp {

// Executes pieces of work one at a time, in the order given. While it has work, no other thread may call MPI
// (MPI_THREAD_SERIALIZED): see wait_until_idle.
//
// MPI makes progress only during calls. This thread calls it every few microseconds and sleeps in between,
// because the main thread computes on the same processors.
class CommunicationThread {
 public:
  CommunicationThread();
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  // A piece of work, which the thread starts as soon as it can. The destructor waits for its end, so data
  // that the work uses need only outlive this object.
  class Pending {
   public:
    Pending(CommunicationThread& thread, std::function<void()> work);
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    // Returns when the work has been executed. Throws its exception, or the exception of earlier work: once a
    // piece fails, later pieces are not executed, because ranks are out of step.
    void wait();

   private:
    friend class CommunicationThread;
    CommunicationThread& thread_;
    std::function<void()> work_;
    bool done_ = false;
    std::exception_ptr error_;
  };

  // Returns when there is no work. Rethrows the exception of failed work.
  void wait_until_idle();

 private:
  void run();
  void execute_first(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  // protects everything below and the members of Pending
  std::condition_variable changed_;
  std::deque<Pending*> pending_;
  std::exception_ptr error_;  // first exception
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tp
