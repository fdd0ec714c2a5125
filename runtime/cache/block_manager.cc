#include "runtime/cache/block_manager.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace tp {
namespace {

std::size_t checked_num_blocks(std::size_t num_blocks) {
  constexpr std::size_t kMax = std::numeric_limits<BlockId>::max();
  require<ConfigError>(num_blocks >= 1 && num_blocks <= kMax,
                       "cannot set up the KV cache: it has {} blocks, expected 1 to {}; change its size",
                       num_blocks, kMax);
  return num_blocks;
}

std::size_t checked_block_size(std::size_t block_size) {
  require<ConfigError>(block_size >= 1,
                       "cannot set up the KV cache: the block size is {} tokens, expected at least 1; use 16",
                       block_size);
  return block_size;
}

}  // namespace

BlockManager::BlockManager(std::size_t num_blocks, std::size_t block_size, CacheWindows windows,
                           BlockHash hash, std::size_t states, BlockOwners owners)
    : block_size_(checked_block_size(block_size)),
      windows_(std::move(windows)),
      blocks_(checked_num_blocks(num_blocks)),
      free_(num_blocks, std::min(owners.count, num_blocks)),
      together_(owners.together),
      states_(states),
      contents_(windows_.size() + (states != 0 ? 1 : 0), hash) {}

// Returns the contents of the longest usable prefix: every group has all blocks that the next token attends
// to, and recurrent layers have a snapshot.
std::vector<ContentId> BlockManager::longest_match(std::span<const TokenId> tokens, ContentId salt) const {
  std::vector<ContentId> known;
  std::vector<std::size_t> held(groups(), 0);  // [groups]: trailing entries of `known` that have a block
  std::size_t longest = 0;
  // "<" because the last token is always computed.
  while ((known.size() + 1) * block_size_ < tokens.size()) {
    const ContentId preceding = known.empty() ? salt : known.back();
    const ContentId next = contents_.find(preceding, tokens.subspan(known.size() * block_size_, block_size_));
    if (next == kNoContents) break;
    known.push_back(next);
    bool all_held = !keeps_states() || contents_.holder(next, groups()) != kNoSlot;
    for (std::size_t group = 0; group < groups(); ++group) {
      held[group] = contents_.holder(next, group) != kNoBlock ? held[group] + 1 : 0;
      const std::size_t needed = known.size() - first_block(group, known.size() * block_size_);
      all_held = all_held && held[group] >= needed;
    }
    if (all_held) longest = known.size();
  }
  known.resize(longest);
  return known;
}

std::vector<ContentId> BlockManager::known_contents(std::span<const TokenId> tokens,
                                                    std::string_view salt) const {
  const ContentId start = contents_.find_salt(salt);
  return start != kNoContents || salt.empty() ? longest_match(tokens, start) : std::vector<ContentId>();
}

PrefixMatch BlockManager::match_prefix(std::span<const TokenId> tokens, std::string_view salt) const {
  const ContentId start = contents_.find_salt(salt);
  const std::vector<ContentId> known = known_contents(tokens, salt);
  PrefixMatch match{.tables = std::vector(groups(), std::vector(known.size(), kNoBlock)),
                    .tokens = known.size() * block_size_};
  match.contents = known.empty() ? start : known.back();
  if (keeps_states() && !known.empty()) match.state = contents_.holder(known.back(), groups());
  for (std::size_t group = 0; group < groups(); ++group) {
    for (std::size_t i = first_block(group, match.tokens); i < known.size(); ++i) {
      const BlockId found = contents_.holder(known[i], group);
      match.tables[group][i] = found;
      if (block(found).owners == 0) ++match.free_blocks;
    }
  }
  return match;
}

std::size_t BlockManager::begin_sequence(SequenceId id, std::span<const TokenId> tokens,
                                         std::string_view salt, std::size_t min) {
  require<std::logic_error>(!sequences_.contains(id), "sequence {} begins twice", id);
  const ContentId start = contents_.use_salt(salt);
  PrefixMatch match;
  std::unordered_map<SequenceId, Sequence>::iterator entry;
  try {
    match = match_prefix(tokens, salt);
    if (match.tokens < min) match = match_prefix({}, salt);
    entry = sequences_.try_emplace(id).first;
  } catch (...) {
    contents_.drop(start);  // out of memory: the sequence has not begun
    throw;
  }
  for (const std::vector<BlockId>& table : match.tables)
    std::ranges::for_each(table, [&](BlockId shared) { acquire(shared); });
  Sequence& started = entry->second;
  started.computed_tokens = match.tokens;
  started.last_contents = match.contents;
  contents_.use(match.contents);
  contents_.drop(start);  // the matched contents or the sequence now keep the salt alive
  started.tables = std::move(match.tables);
  if (keeps_states()) {
    started.first_state = match.state;
    if (match.state != kNoSlot) states_.touch(match.state);  // take_state() takes it last
    started.state = take_state();
  }
  return match.tokens;
}

void BlockManager::begin_unshared_sequence(SequenceId id) {
  begin_sequence(id, {});
  sequence(id).shared = false;
}

bool BlockManager::try_reserve(SequenceId id, std::size_t total_tokens, std::vector<BlockId>& new_blocks) {
  Sequence& reserving = sequence(id);
  const std::size_t length = reserving.length();
  const std::size_t needed = std::max(blocks_for(total_tokens), length);
  if ((needed - length) * groups() > free_blocks()) return false;
  for (std::vector<BlockId>& table : reserving.tables) {
    while (table.size() < needed) table.push_back(new_blocks.emplace_back(take_free(next_owner(table))));
  }
  return true;
}

void BlockManager::commit(SequenceId id, std::span<const TokenId> tokens, std::size_t computed_tokens) {
  Sequence& committed = sequence(id);
  const std::size_t before = committed.computed_tokens;
  require<std::logic_error>(
      computed_tokens <= tokens.size() && computed_tokens <= committed.length() * block_size_ &&
          computed_tokens >= before,
      "sequence {} cannot have {} computed tokens: it has {} tokens, {} blocks of {}, and had {} "
      "computed before",
      id, computed_tokens, tokens.size(), committed.length(), block_size_, before);
  if (committed.shared) publish_full_blocks(committed, tokens, computed_tokens);
  committed.computed_tokens = computed_tokens;
  leave_windows(committed, before);
}

void BlockManager::publish_full_blocks(Sequence& committed, std::span<const TokenId> tokens,
                                       std::size_t computed_tokens) {
  for (std::size_t i = committed.computed_tokens / block_size_; i < computed_tokens / block_size_; ++i) {
    const ContentId preceding = committed.last_contents;
    const ContentId contents = contents_.use(preceding, tokens.subspan(i * block_size_, block_size_));
    for (std::size_t group = 0; group < groups(); ++group) {
      publish(committed.tables[group][i], contents, group);
    }
    publish_state(committed, (i + 1) * block_size_, contents);
    committed.last_contents = contents;
    contents_.drop(preceding);
  }
}

StateSlot BlockManager::take_state() {
  const StateSlots::Taken taken = states_.take();
  if (taken.evicted != kNoContents) contents_.evict(taken.evicted, groups());
  return taken.slot;
}

StateSlot BlockManager::take_trial_state(SequenceId id) {
  Sequence& trying = sequence(id);
  require<std::logic_error>(trying.trial_state == kNoSlot, "sequence {} tries two states", id);
  return trying.trial_state = take_state();
}

void BlockManager::resolve_trial_state(SequenceId id, bool keep) {
  Sequence& resolved = sequence(id);
  const StateSlot trial = std::exchange(resolved.trial_state, kNoSlot);
  states_.release(keep ? std::exchange(resolved.state, trial) : trial);
}

std::vector<StateSave> BlockManager::take_saves(SequenceId id, const SnapshotPositions& positions) {
  Sequence& saving = sequence(id);
  std::vector<StateSave> taken;
  if (!saving.shared) return taken;
  const auto take = [&](std::size_t position, bool replaceable) {
    if (awaited_saves_ == states_.size() / 2) return;  // the other half is for sequences
    drop_latest(saving);
    taken.push_back({position, take_state()});
    saving.saves.push_back({taken.back(), replaceable});
    ++awaited_saves_;
  };
  for (const std::size_t position : positions.kept) take(position, false);
  if (positions.latest) take(*positions.latest, true);
  return taken;
}

bool BlockManager::awaits_save(SequenceId id, std::size_t position) const {
  return std::ranges::find(sequence(id).saves, position, &StateSave::position) != sequence(id).saves.end();
}

// Lets other sequences find the state, unless a snapshot with these contents already exists.
void BlockManager::publish_state(Sequence& committed, std::size_t position, ContentId contents) {
  const auto save = std::ranges::find(committed.saves, position, &StateSave::position);
  if (save == committed.saves.end()) return;
  const AwaitedSave taken = *save;
  committed.saves.erase(save);
  --awaited_saves_;
  if (const StateSlot known = contents_.holder(contents, groups()); known != kNoSlot) {
    states_.touch(known);
    states_.release(taken.slot);
  } else {
    if (taken.replaceable) committed.latest = contents;
    states_.keep(taken.slot, contents, taken.replaceable);
    contents_.hold(contents, groups(), taken.slot);
  }
}

// Drops the sequence's latest snapshot, unless it was evicted or other sequences have used it.
void BlockManager::drop_latest(Sequence& saving) {
  const ContentId contents = std::exchange(saving.latest, kNoContents);
  if (contents == kNoContents) return;
  const StateSlot slot = contents_.holder(contents, groups());
  if (slot == kNoSlot || !states_.is_replaceable(slot)) return;
  states_.drop(slot);
  contents_.evict(contents, groups());
}

// Releases the blocks that neither the next token nor any later token attends to.
void BlockManager::leave_windows(Sequence& committed, std::size_t computed_before) {
  for (std::size_t group = 0; group < groups(); ++group) {
    const std::size_t end = first_block(group, committed.computed_tokens);
    for (std::size_t i = first_block(group, computed_before); i < end; ++i)
      release(std::exchange(committed.tables[group][i], kNoBlock));
  }
}

std::size_t BlockManager::missing_blocks(SequenceId id, std::size_t tokens, std::size_t chunk) const {
  const Sequence& asked = sequence(id);
  std::size_t owned = 0;
  for (std::size_t group = 0; group < groups(); ++group)
    owned += asked.length() - std::min(asked.length(), first_block(group, asked.computed_tokens));
  const std::size_t needed = CacheShape{block_size_, chunk, windows_}.blocks_for(tokens);
  return needed - std::min(needed, owned);
}

void BlockManager::end_sequence(SequenceId id) {
  const Sequence ended = std::move(sequence(id));
  sequences_.erase(id);
  if (ended.state != kNoSlot) states_.release(ended.state);
  if (ended.trial_state != kNoSlot) states_.release(ended.trial_state);
  for (const StateSave& save : ended.saves) states_.release(save.slot);
  awaited_saves_ -= ended.saves.size();
  // In reverse order, so that the first blocks, which more prompts share, are evicted last.
  for (std::size_t i = ended.length(); i-- > 0;) {
    for (const std::vector<BlockId>& table : ended.tables) release(table[i]);
  }
  contents_.drop(ended.last_contents);
}

void BlockManager::hand_over(SequenceId from, SequenceId to) {
  require<std::logic_error>(sequences_.count(to) == 0, "sequence {} begins twice", to);
  Sequence handed = std::move(sequence(from));
  sequences_.erase(from);
  sequences_.emplace(to, std::move(handed));
}

BlockManager::Sequence& BlockManager::sequence(SequenceId id) {
  return const_cast<Sequence&>(std::as_const(*this).sequence(id));
}

const BlockManager::Sequence& BlockManager::sequence(SequenceId id) const {
  const auto found = sequences_.find(id);
  require<std::logic_error>(found != sequences_.end(), "unknown sequence {}: it has not begun, or has ended",
                            id);
  return found->second;
}

void BlockManager::acquire(BlockId id) {
  if (id != kNoBlock && block(id).owners++ == 0) free_.remove(id);
}

void BlockManager::release(BlockId id) {
  if (id == kNoBlock || --block(id).owners > 0) return;
  if (block(id).contents == kNoContents) {
    free_.push_front(id);
  } else {
    free_.push_back(id);
  }
}

std::size_t BlockManager::next_owner(std::span<const BlockId> table) const {
  std::size_t owner = free_.fullest_run();
  if (!table.empty() && table.back() != kNoBlock) {
    const std::size_t last = free_.run_of(table.back());
    const std::size_t next = table.size() % together_ == 0 ? (last + 1) % free_.runs() : last;
    if (free_.size(next) > 0) owner = next;
  }
  for (std::size_t i = 0; i < free_.runs(); ++i) {
    const std::size_t next = (owner + i) % free_.runs();
    if (has_blank(next)) return next;
  }
  return owner;
}

BlockId BlockManager::take_free(std::size_t owner) {
  const BlockId id = free_.pop_front(owner);
  if (block(id).contents != kNoContents) contents_.evict(block(id).contents, block(id).group);
  block(id) = {.owners = 1};
  return id;
}

// Lets other sequences find the block, unless a block that is in use has the same contents.
void BlockManager::publish(BlockId id, ContentId contents, std::size_t group) {
  const BlockId holder = contents_.holder(contents, group);
  if (holder != kNoBlock) {
    if (block(holder).owners > 0) return;
    // An idle duplicate, which no prompt could use because blocks of other groups were missing.
    contents_.evict(contents, group);
    block(holder).contents = kNoContents;
    free_.remove(holder);
    free_.push_front(holder);
  }
  block(id).contents = contents;
  block(id).group = group;
  contents_.hold(contents, group, id);
}

void BlockManager::check_invariants() const {
  check_tables();
  check_owners();
  check_contents();
  check_writable_blocks();
  check_states();
}

// Checks that every group has released exactly the blocks that the next token no longer attends to.
void BlockManager::check_tables() const {
  for (const auto& [id, owner] : sequences_) {
    for (std::size_t group = 0; group < groups(); ++group) {
      const std::vector<BlockId>& table = owner.tables[group];
      require<std::logic_error>(table.size() == owner.length(), "tables of sequence {} differ in length", id);
      const auto first = static_cast<std::ptrdiff_t>(first_block(group, owner.computed_tokens));
      const auto behind = std::ranges::count(table, kNoBlock);
      require<std::logic_error>(
          behind == first && std::all_of(table.begin(), table.begin() + first,
                                         [](BlockId entry) { return entry == kNoBlock; }),
          "sequence {} has released {} blocks of group {}, not its first {}", id, behind, group, first);
    }
  }
}

void BlockManager::check_owners() const {
  std::vector<std::int32_t> owners(blocks_.size(), 0);
  for (const auto& [id, owner] : sequences_) {
    for (const std::vector<BlockId>& table : owner.tables) {
      for (const BlockId owned : table) {
        if (owned != kNoBlock) ++owners[static_cast<std::size_t>(owned)];
      }
    }
  }
  for (const auto& [id, lent] : loans_) {
    for (const auto* tables : {&lent.held, &lent.blank}) {
      for (const std::vector<BlockId>& table : *tables) {
        for (const BlockId owned : table) {
          if (owned != kNoBlock) ++owners[static_cast<std::size_t>(owned)];
        }
      }
    }
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

void BlockManager::check_contents() const {
  std::vector<ContentId> users;
  for (const auto& [id, owner] : sequences_) users.push_back(owner.last_contents);
  for (const auto& [id, lent] : loans_) users.push_back(lent.contents.back());
  contents_.check_invariants(users);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].contents == kNoContents) continue;
    require<std::logic_error>(
        contents_.holder(blocks_[i].contents, blocks_[i].group) == static_cast<BlockId>(i),
        "the contents of block {} are in another block", i);
  }
}

// Checks that each slot is owned by a sequence, awaits a save or is free, and that the index finds every
// snapshot.
void BlockManager::check_states() const {
  std::vector<std::size_t> uses(states_.size(), 0);
  std::size_t awaited = 0;
  const auto use = [&](StateSlot slot) { ++uses.at(static_cast<std::size_t>(slot)); };
  for (const auto& [id, owner] : sequences_) {
    require<std::logic_error>((owner.state != kNoSlot) == keeps_states(), "sequence {} has no state", id);
    if (owner.state != kNoSlot) use(owner.state);
    if (owner.trial_state != kNoSlot) use(owner.trial_state);
    for (const StateSave& save : owner.saves) use(save.slot);
    awaited += owner.saves.size();
  }
  for (const auto& [id, lent] : loans_) {
    if (lent.state == kNoSlot) continue;
    use(lent.state);
    ++awaited;
  }
  require<std::logic_error>(awaited == awaited_saves_, "{} saves are awaited, {} are counted", awaited_saves_,
                            awaited);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto slot = static_cast<StateSlot>(i);
    require<std::logic_error>(uses[i] == (states_.is_free(slot) ? 0U : 1U), "state {} is used {} times{}", i,
                              uses[i], states_.is_free(slot) ? ", but free" : "");
    const ContentId contents = states_.contents(slot);
    require<std::logic_error>(contents == kNoContents || contents_.holder(contents, groups()) == slot,
                              "the contents of state {} are in another one", i);
  }
}

// Checks that blocks to which keys and values will be written have one owner and are not published.
void BlockManager::check_writable_blocks() const {
  for (const auto& [id, owner] : sequences_) {
    for (const std::vector<BlockId>& table : owner.tables) {
      for (std::size_t i = owner.computed_tokens / block_size_; i < table.size(); ++i) {
        const Block& writable = block(table[i]);
        require<std::logic_error>(writable.owners == 1 && writable.contents == kNoContents,
                                  "sequence {} writes to block {}, which is shared or published", id,
                                  table[i]);
      }
    }
  }
}

}  // namespace tp
