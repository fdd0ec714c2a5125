// A few threads for work that must block neither the ranks nor the connections: JSON, templates, tokenizing.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tp {

class WorkerPool {
 public:
  // Throws std::system_error if a thread cannot be started.
  explicit WorkerPool(std::size_t threads);
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // From any thread. `task` must not throw: an exception ends the process.
  void post(std::function<void()> task);
  // Runs all posted tasks, then ends the threads. Later tasks are dropped.
  void stop();

 private:
  WorkerPool() = default;
  void run();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false;  // threads end when no tasks are left
  bool has_ended_ = false;
  std::vector<std::thread> threads_;
};

// Runs tasks one at a time, in the order of their posting. Copies share the queue.
class TaskQueue {
 public:
  // `pool` must outlive the last task.
  explicit TaskQueue(WorkerPool& pool) : state_(std::make_shared<State>(pool)) {}
  void post(std::function<void()> task);

 private:
  struct State {
    explicit State(WorkerPool& shared) : pool(shared) {}
    WorkerPool& pool;
    std::mutex mutex;
    std::deque<std::function<void()>> tasks;
    bool runs = false;
  };
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace tp
