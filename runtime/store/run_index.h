// Rank 0's index of the stored prompts.
#pragma once

#include "runtime/store/files/prompt_ids.h"
#include "runtime/store/files/run_file.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tp {

class RunIndex {
 public:
  explicit RunIndex(std::size_t block_size) : block_size_(block_size) {}

  // Adds a run of blocks, which replaces shorter runs with the same beginning, or a state. Ignores headers
  // whose ids do not follow from their tokens.
  void add(const RunHeader& header);
  // Forgets the run that ends with this block.
  void remove_run(const PromptId& id);
  void remove_state(const PromptId& id) { states_.erase(id); }

  struct Found {
    std::shared_ptr<const RunHeader> run;
    std::size_t blocks = 0;  // blocks of the run up to the one that was looked for
  };
  std::optional<Found> find(const PromptId& block) const;
  bool has_run(const PromptId& id) const { return runs_.contains(id); }
  bool has_state(const PromptId& id) const { return states_.contains(id); }

 private:
  std::size_t block_size_;
  std::unordered_map<PromptId, std::shared_ptr<const RunHeader>, PromptIdHash> runs_;  // by last block
  std::unordered_map<PromptId, Found, PromptIdHash> blocks_;
  std::unordered_set<PromptId, PromptIdHash> states_;
};

// A usable beginning of a prompt: its runs in order.
struct StoredPrefix {
  struct Run {
    std::shared_ptr<const RunHeader> run;
    std::size_t first = 0;   // index of the run's first block
    std::size_t blocks = 0;  // blocks that belong to the prompt
  };
  std::size_t blocks = 0;
  std::vector<Run> runs;
};

// The longest stored prefix of a prompt whose blocks have these ids, with more than `min` blocks. `reach`:
// tokens that the next token sees in the layers with the widest window. `with_state`: only prefixes with a
// state.
std::optional<StoredPrefix> find_prefix(const RunIndex& index, const std::vector<PromptId>& ids,
                                        std::size_t min, std::optional<std::size_t> reach,
                                        std::size_t block_size, bool with_state);

}  // namespace tp
