// A rank's part of the store: a thread that writes and reads files while the rank computes.
#pragma once

#include "runtime/protocol/store_work.h"
#include "runtime/store/files/cache_parts.h"
#include "runtime/store/files/store_folder.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tp {

class RankStore {
 public:
  // `groups`: groups of the cache, which must outlive this object. `limit`: bytes that all stores in the
  // folder may have; 0: another rank on this host sees to it. `indexed`: parts for take_found(), if any.
  RankStore(StoreFolder folder, std::vector<CachePart> parts, std::size_t groups, std::uint64_t limit,
            std::vector<std::string> indexed);
  // Drops the work that has not begun.
  ~RankStore();
  RankStore(const RankStore&) = delete;
  RankStore& operator=(const RankStore&) = delete;

  // Queues the work and returns at once. Reads come before writes; apart from that, the order is kept. The
  // blocks of a task must not change until the task is reported. States are copied before this returns.
  StoreReport run(StoreWork work);
  // Bytes that run() copies: those of recurrent states.
  std::size_t bytes_to_copy(const StoreWork& work) const;

  // The headers of files that have appeared since the last call, by this job or others.
  std::vector<RunHeader> take_found();

 private:
  // A run, and the files of its states, which have been copied. Without a run: removes all files.
  struct Save {
    StoreTask task{};
    std::vector<std::vector<std::byte>> states{};  // [parts], empty for other parts
  };

  void work();
  void maintain();
  void save(const Save& save);
  void clear();
  void load(const StoreTask& task);
  void save_blocks(const CachePart& part, const StoredRun& run);
  // Whether a file has the part's values from block `first` on.
  bool is_stored(const CachePart& part, const StoredRun& run, std::size_t first) const;
  void ignore(const std::filesystem::path& file, const std::string& why);
  void remove_shorter(const CachePart& part, const StoredRun& run) const;
  void guard(const std::function<void()>& task);
  void stop_writing(const std::string& why);
  void write(const CachePart& part, const StoredRun& run, std::span<const std::byte> file);
  bool wants(const CachePart& part, const StoredRun& run) const;
  bool read(const CachePart& part, const StoredRun& run, bool copies);
  void end_load(const StoreTask& task, std::size_t failed);
  std::vector<std::byte> file_of_state(const CachePart& part, const StoredRun& run) const;
  bool is_cancelled(std::uint64_t load);

  StoreFolder folder_;
  std::vector<CachePart> parts_;
  std::size_t groups_;
  std::uint64_t limit_;
  std::vector<std::string> indexed_;
  std::vector<std::byte> buffer_;                       // a file, for the thread
  std::unordered_set<std::string> seen_;                // names of indexed files, for the thread
  std::chrono::steady_clock::time_point maintained_{};  // for the thread

  std::mutex mutex_;  // guards all members below
  std::condition_variable wake_;
  std::deque<Save> saves_;
  std::deque<StoreTask> loads_;
  std::set<std::uint64_t> cancelled_;
  std::deque<StoreReport::Load> ended_;
  std::vector<RunHeader> found_;
  StoreReport report_;
  std::deque<std::pair<StoreProblem, std::string>> problems_;  // not reported yet
  bool writes_ = true;                                         // false after an error
  bool stops_ = false;
  std::thread thread_;  // last, so that all other members exist while it runs
};

}  // namespace tp
