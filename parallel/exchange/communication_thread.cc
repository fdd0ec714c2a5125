#include "parallel/exchange/communication_thread.h"

#include "parallel/exchange/wait.h"

#include <csignal>
#include <utility>

#include <omp.h>
#include <sys/prctl.h>

namespace tp {

// Blocks all signals in the new thread, so that the existing threads handle them.
CommunicationThread::CommunicationThread() {
  struct BlockedSignals {
    BlockedSignals() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before{};
  };
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

CommunicationThread::~CommunicationThread() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void CommunicationThread::run() {
  // Sums on this thread must not start OpenMP threads: the main thread's OpenMP threads already occupy the
  // processors.
  omp_set_num_threads(1);
  Wait::in_background();
  // Nanoseconds by which Linux may extend a sleep; the default is 50 us.
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !pending_.empty(); });
    if (pending_.empty()) return;
    execute_first(lock);
  }
}

void CommunicationThread::execute_first(std::unique_lock<std::mutex>& lock) {
  Pending& first = *pending_.front();
  if (!error_) {
    lock.unlock();
    std::exception_ptr error;
    try {
      first.work_();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
  }
  first.error_ = error_;
  first.done_ = true;
  pending_.pop_front();
  changed_.notify_all();
}

void CommunicationThread::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return pending_.empty(); });
  if (error_) std::rethrow_exception(error_);
}

CommunicationThread::Pending::Pending(CommunicationThread& thread, std::function<void()> work)
    : thread_(thread), work_(std::move(work)) {
  const std::scoped_lock lock(thread_.mutex_);
  thread_.pending_.push_back(this);
  thread_.changed_.notify_all();
}

CommunicationThread::Pending::~Pending() {
  std::unique_lock lock(thread_.mutex_);
  thread_.changed_.wait(lock, [&] { return done_; });
}

void CommunicationThread::Pending::wait() {
  std::unique_lock lock(thread_.mutex_);
  thread_.changed_.wait(lock, [&] { return done_; });
  if (error_) std::rethrow_exception(error_);
}

}  // namespace tp
