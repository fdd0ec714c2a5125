#include "runtime/store/run_index.h"

#include "runtime/cache/cache_shape.h"

#include <algorithm>

namespace tp {

void RunIndex::add(const RunHeader& header) {
  const std::vector<PromptId> ids = ids_after(header.before, header.tokens, block_size_);
  if (ids.empty() || ids.back() != header.id || header.tokens.size() % block_size_ != 0) return;
  if (header.kind == StoredKind::states) {
    states_.insert(header.id);
    return;
  }
  const auto run = std::make_shared<const RunHeader>(header);
  for (const PromptId& shorter : ids) runs_.erase(shorter);
  runs_[header.id] = run;
  for (std::size_t i = 0; i < ids.size(); ++i) blocks_[ids[i]] = {run, i + 1};
}

void RunIndex::remove_run(const PromptId& id) {
  const auto removed = runs_.extract(id);
  if (!removed.empty())
    std::erase_if(blocks_, [&](const auto& entry) { return entry.second.run == removed.mapped(); });
}

std::optional<RunIndex::Found> RunIndex::find(const PromptId& block) const {
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return std::nullopt;
  return found->second;
}

namespace {

// The runs that contain the blocks [first, end); nothing if one is not stored.
std::optional<StoredPrefix> runs_of(const RunIndex& index, const std::vector<PromptId>& ids,
                                    std::size_t first, std::size_t end) {
  StoredPrefix prefix{.blocks = end, .runs = {}};
  while (end > first) {
    const std::optional<RunIndex::Found> found = index.find(ids[end - 1]);
    if (!found || found->blocks > end) return std::nullopt;
    end -= found->blocks;
    prefix.runs.push_back({found->run, end, found->blocks});
  }
  std::ranges::reverse(prefix.runs);
  return prefix;
}

}  // namespace

std::optional<StoredPrefix> find_prefix(const RunIndex& index, const std::vector<PromptId>& ids,
                                        std::size_t min, std::optional<std::size_t> reach,
                                        std::size_t block_size, bool with_state) {
  for (std::size_t end = ids.size(); end > min; --end) {
    if (with_state && !index.has_state(ids[end - 1])) continue;
    const std::size_t first = first_seen(reach, end * block_size) / block_size;
    if (std::optional<StoredPrefix> prefix = runs_of(index, ids, first, end)) return prefix;
  }
  return std::nullopt;
}

}  // namespace tp
