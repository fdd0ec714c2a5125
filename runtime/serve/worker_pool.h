// A few threads for work that must neither stop the ranks nor the connections: JSON, templates, tokenizing.
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
  explicit WorkerPool(std::size_t threads);
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // From any thread. `task` must not throw.
  void post(std::function<void()> task);
  // Runs what was posted, and ends; what is posted later is dropped.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false;  // when there are no tasks left
  bool has_ended_ = false;
  std::vector<std::thread> threads_;
};

// Tasks that run in the order in which they were posted, one at a time. Copies are the same queue.
class TaskQueue {
 public:
  // `pool` must outlive the last of its tasks.
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
