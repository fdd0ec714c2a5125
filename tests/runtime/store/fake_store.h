// Fake stores of ranks: they take a random time, and they keep their files in memory.
#pragma once

#include "runtime/protocol/store_work.h"
#include "runtime/store/run_index.h"
#include "tests/reference/random.h"
#include "tests/runtime/scheduling/fake_worker.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace tp::test {

// The stored files of all ranks.
struct FakeFiles {
  struct File {
    RunHeader header;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<FakeWorker::Slot>>
        blocks;  // key: group and index
    std::vector<TokenId> state;
  };
  std::map<std::pair<PromptId, bool>, File> all;  // key: id, and whether the file is a state
};

// The stores of all ranks. In every call of run(), each rank does a random part of its work.
class FakeStores {
 public:
  FakeStores(FakeWorker& worker, FakeFiles& files, reference::Random& random, std::size_t block_size,
             std::size_t groups, std::size_t ranks)
      : worker_(worker),
        files_(files),
        random_(random),
        block_size_(block_size),
        groups_(groups),
        ranks_(ranks) {}

  std::vector<StoreReport> run(const StoreWork& work) {
    std::vector<StoreReport> reports;
    // A store copies states immediately.
    for (const StoreTask& task : work.saves) {
      if (task.runs.front().blocks.empty()) save(task.runs.front());
    }
    for (Rank& rank : ranks_) {
      rank.saves.insert(rank.saves.end(), work.saves.begin(), work.saves.end());
      rank.loads.insert(rank.loads.end(), work.loads.begin(), work.loads.end());
      rank.cancelled.insert(rank.cancelled.end(), work.cancelled.begin(), work.cancelled.end());
      reports.push_back(work_of(rank));
    }
    return reports;
  }

  std::size_t failed() const { return failed_; }
  std::size_t cancelled() const { return cancelled_; }

 private:
  struct Rank {
    std::deque<StoreTask> saves;
    std::deque<StoreTask> loads;
    std::vector<std::uint64_t> cancelled;
    std::uint64_t finished = 0;
  };

  StoreReport work_of(Rank& rank) {
    StoreReport report;
    for (std::size_t i = random_.integer(0, 2); i > 0 && !rank.loads.empty(); --i) {
      const StoreTask task = rank.loads.front();
      rank.loads.pop_front();
      report.loads[report.ended_loads++] = {task.id, load(rank, task)};
    }
    for (std::size_t i = random_.integer(0, 2); i > 0 && !rank.saves.empty(); --i) {
      if (!rank.saves.front().runs.front().blocks.empty()) save(rank.saves.front().runs.front());
      rank.saves.pop_front();
      ++rank.finished;
    }
    report.saves = rank.finished;
    return report;
  }

  void save(const StoredRun& run) {
    FakeFiles::File file;
    file.header = {.kind = run.blocks.empty() ? StoredKind::states : StoredKind::keys_and_values,
                   .before = run.before,
                   .id = run.id,
                   .tokens = run.tokens};
    for_blocks(run, [&](std::size_t group, std::size_t index, BlockId block) {
      std::vector<FakeWorker::Slot>& slots = file.blocks[{group, index}];
      for (std::size_t i = 0; i < block_size_; ++i) slots.push_back(worker_.slot_of(block, i));
    });
    if (run.blocks.empty()) file.state = worker_.state_of(run.state);
    files_.all.insert_or_assign({run.id, run.blocks.empty()}, std::move(file));
  }

  // Returns the number of runs that were loaded before the first failure.
  std::size_t load(const Rank& rank, const StoreTask& task) {
    for (std::size_t i = 0; i < task.runs.size(); ++i) {
      const StoredRun& run = task.runs[i];
      if (std::ranges::find(rank.cancelled, task.id) != rank.cancelled.end()) return ++cancelled_, i;
      const auto file = files_.all.find({run.id, run.blocks.empty()});
      if (file == files_.all.end() || random_.integer(0, 19) == 0 || !read(run, file->second))
        return ++failed_, i;
    }
    return task.runs.size();
  }

  bool read(const StoredRun& run, const FakeFiles::File& file) {
    EXPECT_EQ(file.header.tokens, run.tokens);
    bool all = true;
    for_blocks(run, [&](std::size_t group, std::size_t index, BlockId block) {
      const auto slots = file.blocks.find({group, index});
      if (slots == file.blocks.end()) {
        all = false;
        return;
      }
      for (std::size_t i = 0; i < block_size_; ++i) worker_.slot_of(block, i) = slots->second[i];
    });
    if (run.state != kNoSlot) worker_.state_of(run.state) = file.state;
    return all;
  }

  template <class Use>
  void for_blocks(const StoredRun& run, const Use& use) const {
    const std::size_t blocks = run.blocks.size() / groups_;
    for (std::size_t i = 0; i < run.blocks.size(); ++i) {
      if (run.blocks[i] != kNoBlock) use(i / blocks, i % blocks, run.blocks[i]);
    }
  }

  FakeWorker& worker_;
  FakeFiles& files_;
  reference::Random& random_;
  std::size_t block_size_;
  std::size_t groups_;
  std::vector<Rank> ranks_;
  std::size_t failed_ = 0;
  std::size_t cancelled_ = 0;
};

}  // namespace tp::test
