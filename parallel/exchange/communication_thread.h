// A thread that communicates while the main thread computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tp {

// Executes work in the order in which it was given, one at a time. While there is any, nobody else may call
// MPI (MPI_THREAD_SERIALIZED): see wait_until_idle.
//
// MPI makes progress only while it is called. This thread calls it every few microseconds and sleeps in
// between, as the main thread computes on the same processors.
class CommunicationThread {
 public:
  CommunicationThread();
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  // A piece of work that is on its way from here on. Its destructor waits for the end, so that what the work
  // refers to need only outlive this.
  class Pending {
   public:
    Pending(CommunicationThread& thread, std::function<void()> work);
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    // Returns when it has been executed. Throws what it threw, or what earlier work did: that is then not
    // executed any more, as the ranks are not together.
    void wait();

   private:
    friend class CommunicationThread;
    CommunicationThread& thread_;
    std::function<void()> work_;
    bool done_ = false;
    std::exception_ptr error_;
  };

  // Returns when there is no work. Throws what work threw.
  void wait_until_idle();

 private:
  void run();
  void execute_first(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  // protects everything below and the members of Pending
  std::condition_variable changed_;
  std::deque<Pending*> pending_;
  std::exception_ptr error_;  // the first one
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tp
