#include "runtime/engine/block_manager.h"

#include "parallel/hash.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace tp {
namespace {

std::size_t checked_num_blocks(std::size_t num_blocks) {
  constexpr std::size_t kMost = std::numeric_limits<BlockId>::max();
  require<ConfigError>(num_blocks >= 1 && num_blocks <= kMost,
                       "cannot set up the KV cache: it has {} blocks, expected 1 to {}; change its size",
                       num_blocks, kMost);
  return num_blocks;
}

std::size_t checked_block_size(std::size_t block_size) {
  require<ConfigError>(block_size >= 1,
                       "cannot set up the KV cache: a block holds {} tokens, expected at least 1; use 16",
                       block_size);
  return block_size;
}

}  // namespace

std::uint64_t hash_of_block(std::uint64_t prefix, std::span<const TokenId> tokens) {
  std::uint64_t hash = mixed(prefix + 1);  // the empty prefix is 0, which mixed() leaves
  for (const TokenId token : tokens) hash = mixed(hash ^ static_cast<std::uint32_t>(token));
  return hash;
}

BlockManager::BlockManager(std::size_t num_blocks, std::size_t block_size, BlockHash hash)
    : block_size_(checked_block_size(block_size)),
      hash_(hash),
      blocks_(checked_num_blocks(num_blocks)),
      tokens_(num_blocks * block_size),
      free_(num_blocks) {}

std::size_t BlockManager::cached_blocks() const {
  // Every known block is in the index once; those that are owned are not free.
  return static_cast<std::size_t>(std::count_if(
      index_.begin(), index_.end(), [this](const auto& entry) { return block(entry.second).owners == 0; }));
}

PrefixMatch BlockManager::match_prefix(std::span<const TokenId> tokens) const {
  PrefixMatch match;
  ContentId preceding = kNothing;
  // "<": the last token is never taken from the cache.
  while (match.tokens + block_size_ < tokens.size()) {
    const BlockId found = find(preceding, tokens.subspan(match.tokens, block_size_));
    if (found == kNone) break;
    match.blocks.push_back(found);
    match.tokens += block_size_;
    if (block(found).owners == 0) ++match.free_blocks;
    preceding = block(found).contents;
  }
  return match;
}

std::size_t BlockManager::begin_sequence(SequenceId id, std::span<const TokenId> tokens) {
  PrefixMatch match = match_prefix(tokens);
  const auto [entry, is_new] = sequences_.try_emplace(id);
  require<std::logic_error>(is_new, "sequence {} begins twice", id);
  for (const BlockId shared : match.blocks) acquire(shared);
  Sequence& started = entry->second;
  started.computed_tokens = match.tokens;
  if (!match.blocks.empty()) started.last_contents = block(match.blocks.back()).contents;
  started.table = std::move(match.blocks);
  return match.tokens;
}

bool BlockManager::try_reserve(SequenceId id, std::size_t total_tokens, std::vector<BlockId>& new_blocks) {
  std::vector<BlockId>& table = sequence(id).table;
  const std::size_t needed = blocks_for(total_tokens);
  if (needed > table.size() + free_blocks()) return false;
  while (table.size() < needed) {
    table.push_back(take_free());
    new_blocks.push_back(table.back());
  }
  return true;
}

void BlockManager::commit(SequenceId id, std::span<const TokenId> tokens, std::size_t computed_tokens) {
  Sequence& committed = sequence(id);
  require<std::logic_error>(
      computed_tokens <= tokens.size() && computed_tokens <= committed.table.size() * block_size_ &&
          computed_tokens >= committed.computed_tokens,
      "sequence {} cannot have {} computed tokens: it has {} tokens, {} blocks of {}, and had {} "
      "computed before",
      id, computed_tokens, tokens.size(), committed.table.size(), block_size_, committed.computed_tokens);
  const std::size_t full_blocks = computed_tokens / block_size_;
  for (std::size_t i = committed.computed_tokens / block_size_; i < full_blocks; ++i) {
    const std::span<const TokenId> contents = tokens.subspan(i * block_size_, block_size_);
    const ContentId preceding = committed.last_contents;
    BlockId known = find(preceding, contents);
    if (known == kNone) {
      known = committed.table[i];
      publish(known, preceding, contents);
    }
    committed.last_contents = block(known).contents;
  }
  committed.computed_tokens = computed_tokens;
}

void BlockManager::end_sequence(SequenceId id) {
  // From the end, so that the beginning, which more prompts have in common, is evicted last.
  const std::vector<BlockId> table = std::move(sequence(id).table);
  sequences_.erase(id);
  for (auto owned = table.rbegin(); owned != table.rend(); ++owned) release(*owned);
}

BlockManager::Sequence& BlockManager::sequence(SequenceId id) {
  return const_cast<Sequence&>(std::as_const(*this).sequence(id));
}

const BlockManager::Sequence& BlockManager::sequence(SequenceId id) const {
  const auto found = sequences_.find(id);
  require<std::logic_error>(found != sequences_.end(),
                            "sequence {} is not there: it has not begun, or has ended", id);
  return found->second;
}

std::span<TokenId> BlockManager::tokens_of(BlockId id) {
  return std::span(tokens_).subspan(static_cast<std::size_t>(id) * block_size_, block_size_);
}

std::span<const TokenId> BlockManager::tokens_of(BlockId id) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(id) * block_size_, block_size_);
}

BlockId BlockManager::find(ContentId preceding, std::span<const TokenId> tokens) const {
  const auto [begin, end] = index_.equal_range(hash_(preceding, tokens));
  for (auto entry = begin; entry != end; ++entry) {
    const BlockId id = entry->second;
    if (block(id).preceding == preceding && std::ranges::equal(tokens_of(id), tokens)) return id;
  }
  return kNone;
}

void BlockManager::acquire(BlockId id) {
  if (block(id).owners++ == 0) free_.remove(id);
}

void BlockManager::release(BlockId id) {
  if (--block(id).owners > 0) return;
  if (block(id).contents == kNothing) {
    free_.push_front(id);
  } else {
    free_.push_back(id);
  }
}

BlockId BlockManager::take_free() {
  const BlockId id = free_.pop_front();
  if (block(id).contents != kNothing) evict(id);
  block(id).owners = 1;
  return id;
}

void BlockManager::publish(BlockId id, ContentId preceding, std::span<const TokenId> tokens) {
  Block& published = block(id);
  published.contents = next_contents_++;
  published.preceding = preceding;
  published.hash = hash_(preceding, tokens);
  std::ranges::copy(tokens, tokens_of(id).begin());
  index_.emplace(published.hash, id);
}

void BlockManager::evict(BlockId id) {
  const auto [begin, end] = index_.equal_range(block(id).hash);
  index_.erase(std::find_if(begin, end, [id](const auto& entry) { return entry.second == id; }));
  block(id) = Block{};
}

void BlockManager::check_invariants() const {
  check_owners();
  check_index();
  check_writable_blocks();
}

void BlockManager::check_owners() const {
  std::vector<std::int32_t> owners(blocks_.size(), 0);
  for (const auto& [id, owner] : sequences_) {
    for (const BlockId owned : owner.table) ++owners[static_cast<std::size_t>(owned)];
  }
  std::size_t free_count = 0;
  for (const BlockId listed : free_.blocks()) {
    ++free_count;
    require<std::logic_error>(owners[static_cast<std::size_t>(listed)] == 0, "block {} is free and owned",
                              listed);
  }
  require<std::logic_error>(free_count == free_.size(), "{} blocks are free, {} are counted", free_count,
                            free_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    require<std::logic_error>(blocks_[i].owners == owners[i], "block {} has {} owners, {} are counted", i,
                              owners[i], blocks_[i].owners);
    require<std::logic_error>((owners[i] == 0) == free_.contains(static_cast<BlockId>(i)),
                              "block {} is neither free nor owned", i);
  }
}

void BlockManager::check_index() const {
  std::size_t known = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].contents == kNothing) continue;
    ++known;
    const auto id = static_cast<BlockId>(i);
    require<std::logic_error>(find(blocks_[i].preceding, tokens_of(id)) == id,
                              "the contents of block {} are not found, or in another block", i);
  }
  require<std::logic_error>(known == index_.size(), "{} blocks are known, {} are in the index", known,
                            index_.size());
}

// Where keys and values are still to be written: nobody else may own that block, nor find it.
void BlockManager::check_writable_blocks() const {
  for (const auto& [id, owner] : sequences_) {
    for (std::size_t i = owner.computed_tokens / block_size_; i < owner.table.size(); ++i) {
      const Block& writable = block(owner.table[i]);
      require<std::logic_error>(writable.owners == 1 && writable.contents == kNothing,
                                "sequence {} writes to block {}, which is shared or can be found", id,
                                owner.table[i]);
    }
  }
}

}  // namespace tp
