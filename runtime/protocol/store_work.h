// The work of the ranks' stores (runtime/store): files to write and to read, and what has been done.
#pragma once

#include "parallel/machine/sha256.h"
#include "runtime/cache/block_manager.h"
#include "tp/token_id.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// The hash of a prompt's first blocks, and of everything else that determines these blocks' keys and values.
using PromptId = Sha256Digest;

// Blocks of one file, or the recurrent state after them.
struct StoredRun {
  PromptId before{};            // id of the block before the first one
  PromptId id{};                // id of the last block
  std::vector<TokenId> tokens;  // tokens of all blocks
  // [groups][blocks], group by group: the blocks to write or to fill; kNoBlock: neither. Empty for a state.
  std::vector<BlockId> blocks{};
  StateSlot state = kNoSlot;  // the slot of a state to write or to fill
  std::size_t position = 0;   // tokens of the prompt before and including `tokens`; 0 unless there is a state
};

// A run to write, or runs to read.
struct StoreTask {
  std::uint64_t id = 0;
  std::vector<StoredRun> runs;
};

struct StoreWork {
  std::vector<StoreTask> saves;
  std::vector<StoreTask> loads;
  std::vector<std::uint64_t> cancelled;  // loads to end early
  bool clears = false;                   // after earlier saves and before these, remove all files
};

// Reported once by each rank.
enum class StoreProblem : std::uint8_t { none, damaged_file, cannot_write };

// A rank's answer.
struct StoreReport {
  static constexpr std::size_t kMaxLoads = 4;  // unfinished loads

  struct Load {
    std::uint64_t id = 0;
    std::uint64_t failed_run = 0;  // index of the first run that could not be read; the number of runs: none
  };

  std::uint64_t saves = 0;              // saves finished so far, in the order of their commands
  std::array<Load, kMaxLoads> loads{};  // loads that have ended since the last report
  std::uint64_t ended_loads = 0;
  std::uint64_t written_bytes = 0;  // bytes written since the start
  std::uint64_t read_bytes = 0;
  std::uint64_t removed_bytes = 0;  // to limit the size of the folder
  double write_seconds = 0.0;
  double read_seconds = 0.0;
  bool writes = true;                         // false after an error
  std::uint64_t damaged_files = 0;            // files that were ignored
  StoreProblem problem = StoreProblem::none;  // a new problem, and a text about it
  std::array<char, 256> note{};
};

}  // namespace tp
