// Rank 0's side of the store: decides which prompts the ranks write and read. Uses neither MPI nor files. See
// README.md.
#pragma once

#include "parallel/shard/shard.h"
#include "runtime/cache/block_manager.h"
#include "runtime/protocol/store_work.h"
#include "runtime/store/files/prompt_ids.h"
#include "runtime/store/run_index.h"
#include "tp/store_status.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tp {

struct StoreSettings {
  Sha256Digest fingerprint{};
  std::size_t min_tokens = 1024;              // shorter prompts are neither written nor read
  std::size_t blocks_per_run = 16;            // most blocks of a file
  std::vector<bool> has_widest_window{true};  // [groups]: whether the group's layers have the widest window
  CacheWindow widest_window{};                // window of these layers
  std::size_t ranks = 1;
};

class StoredPrefixes {
 public:
  // `blocks` must outlive this object.
  StoredPrefixes(BlockManager& blocks, StoreSettings settings)
      : blocks_(blocks), settings_(std::move(settings)), index_(blocks.block_size()) {}

  // Adds a file that exists.
  void add_stored(const RunHeader& header) { index_.add(header); }

  using Clock = std::chrono::steady_clock;

  // The tokens of a sequence.
  struct Text {
    SequenceId id = 0;
    std::span<const TokenId> tokens;
    std::string_view salt;
    std::size_t prompt_tokens = 0;
  };
  // A prefix that was read.
  struct Restored {
    std::size_t tokens = 0;
    double seconds = 0.0;
  };

  // Reading. Whether the sequence must wait, because a prefix is being read. If the store has a longer prefix
  // of `text.tokens` than the cache, at most `room` free blocks suffice, and computing at this speed (tokens
  // per second; 0: unknown) would not be faster, starts reading it.
  bool must_wait(const Text& text, std::size_t room, double compute_rate = 0.0);
  // The sequence has begun, or never will: it needs no prefix any more. Returns what was read.
  Restored leave(SequenceId id);
  // Gives up the newest prefix. Returns whether blocks have become free; otherwise they may after the next
  // apply_reports(). Returns nothing if there is no prefix to give up.
  std::optional<bool> give_up_newest();
  std::size_t loading() const;
  // Whether the ranks are reading or writing, so that blocks will become free even if no sequence runs.
  bool is_lending() const { return !loads_.empty() || !saving_.empty(); }

  // Writing. Queues the runs and states that are complete now that the sequence's first `computed` tokens are
  // published.
  void add(const Text& text, std::size_t computed);
  // Queues the rest of a sequence, before its blocks are released.
  void end(const Text& text);
  // Drops what is known of a sequence that is to be computed again.
  void forget(SequenceId id) { tracks_.erase(id); }

  // From any thread: the next take_work() forgets all stored prompts and lets the ranks remove their files.
  void clear_soon() { clears_ = true; }

  // Work for the ranks; nothing if there is none, or if it is too early to ask again.
  std::optional<StoreWork> take_work();
  // Processes the ranks' reports, in rank order. Returns notes for the user.
  std::vector<std::string> apply_reports(std::span<const StoreReport> reports);
  // Whether files are being written or read, or wait for it.
  bool is_busy() const { return !queue_.empty() || !saving_.empty() || !loads_.empty() || clears_; }

  StoreStatus status() const;

 private:
  // A run or a state to write.
  struct Save {
    RunHeader header;
    std::vector<ContentId> contents;  // [blocks]
    std::size_t position = 0;         // tokens up to the end of the last block
  };
  struct Saving {
    RunHeader header;
    std::optional<LoanId> loan;
    bool is_removed = false;  // the file will be removed
  };
  // Facts about the text of a running sequence.
  struct Track {
    std::vector<PromptId> ids;  // [blocks]
    PromptId salt{};
    std::size_t queued = 0;  // blocks of whole runs that have been queued
  };
  // A prefix of a waiting sequence.
  struct Prefix {
    // waiting: for other prefixes, or for room. none: the sequence does without.
    enum class State : std::uint8_t { waiting, loading, ready, none } state = State::none;
    std::vector<PromptId> ids;  // [blocks] of the prompt, while it is waiting
    std::uint64_t load = 0;
    LoanId loan = 0;
    std::size_t tokens = 0;  // tokens that are read
    Clock::time_point begun{};
    double seconds = 0.0;
  };
  struct Load {
    std::optional<SequenceId> sequence;  // none: cancelled
    LoanId loan = 0;
    std::size_t blocks = 0;  // length of the prefix
    PromptId end{};          // id of its last block
    std::vector<StoredRun> runs;
    std::size_t reports = 0;
    std::size_t failed = SIZE_MAX;  // first run that failed on any rank
  };

  bool is_slower_than(double compute_rate) const;
  void measure(const Prefix& prefix);
  bool is_being_read(const std::vector<PromptId>& ids) const;
  bool start(const Text& text, const StoredPrefix& found, const std::vector<PromptId>& ids,
             std::size_t cached, std::size_t room);
  std::vector<StoredRun> runs_to_read(const BlockLoan& loan, const StoredPrefix& found,
                                      const std::vector<PromptId>& ids, const PromptId& salt,
                                      std::span<const TokenId> tokens) const;
  void cancel(Prefix& prefix);
  void end_load(std::uint64_t id);

  RunHeader header_of(const Text& text, const Track& track, Range blocks, StoredKind kind) const;
  void queue_run(const Text& text, const Track& track, Range blocks);
  void queue_state(const Text& text, const Track& track, std::size_t end, ContentId contents);
  void clear();
  std::optional<StoreTask> next_save();
  bool has_needed_blocks(const BlockLoan& lent, std::size_t position) const;
  void end_saves(std::uint64_t finished);

  BlockManager& blocks_;
  StoreSettings settings_;
  RunIndex index_;
  std::unordered_map<SequenceId, Track> tracks_;
  std::deque<Save> queue_;
  std::deque<Saving> saving_;
  std::uint64_t saves_finished_ = 0;
  std::unordered_set<PromptId, PromptIdHash> known_runs_;  // queued or stored on all ranks
  std::unordered_set<PromptId, PromptIdHash> known_states_;
  std::map<SequenceId, Prefix> prefixes_;
  std::map<std::uint64_t, Load> loads_;
  std::uint64_t next_task_ = 1;
  StoreWork work_;  // loads and cancellations to send
  std::atomic<bool> clears_ = false;
  Clock::time_point asked_{};
  // Recent reading: tokens, their seconds, and the time of the last measurement.
  double read_tokens_ = 0.0;
  double read_seconds_ = 0.0;
  Clock::time_point measured_{};
  std::set<StoreProblem> noted_;
  StoreStatus status_{.is_open = true, .writes = true};
};

}  // namespace tp
