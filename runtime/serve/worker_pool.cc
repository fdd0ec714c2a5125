#include "runtime/serve/worker_pool.h"

#include <utility>

namespace tp {

// Delegates, so that the destructor joins the first threads if a later one cannot be started.
WorkerPool::WorkerPool(std::size_t threads) : WorkerPool() {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

void WorkerPool::stop() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    threads.swap(threads_);
  }
  posted_.notify_all();
  for (std::thread& thread : threads) thread.join();
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  tasks_.clear();
}

void WorkerPool::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    tasks_.push_back(std::move(task));
  }
  posted_.notify_one();
}

void WorkerPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

void TaskQueue::post(std::function<void()> task) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->tasks.push_back(std::move(task));
    if (std::exchange(state_->runs, true)) return;
  }
  state_->pool.post([state = state_] { run(state); });
}

// Runs one task, then queues the next task after tasks of other queues.
void TaskQueue::run(const std::shared_ptr<State>& state) {
  std::function<void()> task;
  {
    const std::lock_guard lock(state->mutex);
    task = std::move(state->tasks.front());
    state->tasks.pop_front();
  }
  task();
  task = nullptr;
  const std::lock_guard lock(state->mutex);
  state->runs = !state->tasks.empty();
  if (state->runs) state->pool.post([state] { run(state); });
}

}  // namespace tp
