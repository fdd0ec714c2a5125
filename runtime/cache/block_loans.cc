// Loans of blocks (see block_manager.h).
#include "runtime/cache/block_manager.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tp {

std::vector<ContentId> BlockManager::contents_of(SequenceId id, Range blocks) const {
  const Sequence& asked = sequence(id);
  std::size_t end = asked.computed_tokens / block_size_;
  require<std::logic_error>(blocks.end <= end && asked.shared, "sequence {} has not published {} blocks", id,
                            blocks.end);
  ContentId contents = asked.last_contents;
  for (; end > blocks.end; --end) contents = contents_.preceding(contents);
  std::vector<ContentId> found(blocks.size());
  for (std::size_t i = blocks.size(); i-- > 0;) {
    found[i] = contents;
    contents = contents_.preceding(contents);
  }
  return found;
}

StateSlot BlockManager::snapshot_after(ContentId contents) const {
  return keeps_states() && contents_.knows(contents) ? contents_.holder(contents, groups()) : kNoSlot;
}

bool BlockManager::is_replaceable(ContentId contents) const {
  const StateSlot slot = snapshot_after(contents);
  return slot != kNoSlot && states_.is_replaceable(slot);
}

LoanId BlockManager::lend(std::vector<ContentId> contents) {
  BlockLoan lent{
      .contents = std::move(contents), .held = std::vector(groups(), std::vector<BlockId>()), .blank = {}};
  lent.blank.assign(groups(), std::vector(lent.contents.size(), kNoBlock));
  for (std::size_t group = 0; group < groups(); ++group) {
    for (const ContentId one : lent.contents) {
      const BlockId held = contents_.knows(one) ? contents_.holder(one, group) : kNoBlock;
      lent.held[group].push_back(held);
      acquire(held);
    }
  }
  if (!contents_.knows(lent.contents.back())) lent.contents.back() = kNoContents;
  contents_.use(lent.contents.back());
  const LoanId id = next_loan_++;
  loans_.emplace(id, std::move(lent));
  return id;
}

// Returns the contents of the text's first blocks, and makes the caller a user of the last ones.
std::vector<ContentId> BlockManager::use_contents(std::span<const TokenId> tokens, std::string_view salt,
                                                  std::size_t blocks) {
  std::vector<ContentId> used;
  ContentId last = contents_.use_salt(salt);
  for (std::size_t i = 0; i < blocks; ++i) {
    used.push_back(contents_.use(last, tokens.subspan(i * block_size_, block_size_)));
    contents_.drop(std::exchange(last, used.back()));
  }
  return used;
}

std::optional<LoanId> BlockManager::lend_blank(std::span<const TokenId> tokens, std::string_view salt,
                                               std::size_t blocks, std::size_t max) {
  BlockLoan lent{.contents = use_contents(tokens, salt, blocks),
                 .held = std::vector(groups(), std::vector(blocks, kNoBlock)),
                 .blank = std::vector(groups(), std::vector(blocks, kNoBlock))};
  std::vector<std::pair<std::size_t, std::size_t>> missing;  // groups and indices of blocks
  std::size_t unowned = 0;                                   // cached blocks that stop being free
  for (std::size_t group = 0; group < groups(); ++group) {
    for (std::size_t i = first_block(group, blocks * block_size_); i < blocks; ++i) {
      const BlockId known = contents_.holder(lent.contents[i], group);
      lent.held[group][i] = known;
      if (known == kNoBlock)
        missing.emplace_back(group, i);
      else if (block(known).owners == 0)
        ++unowned;
    }
  }
  const bool lacks_state = keeps_states() && snapshot_after(lent.contents.back()) == kNoSlot;
  const std::size_t room = std::min(max, free_blocks());
  if (missing.size() + unowned > room || (lacks_state && awaited_saves_ >= states_.size() / 2)) {
    contents_.drop(lent.contents.back());
    return std::nullopt;
  }
  for (const std::vector<BlockId>& table : lent.held)
    std::ranges::for_each(table, [&](BlockId held) { acquire(held); });
  std::vector<std::vector<BlockId>> tables = lent.held;
  for (const auto& [group, i] : missing)
    lent.blank[group][i] = tables[group][i] = take_free(next_owner(std::span(tables[group]).first(i)));
  if (lacks_state) {
    lent.state = take_state();
    ++awaited_saves_;
  }
  const LoanId id = next_loan_++;
  loans_.emplace(id, std::move(lent));
  return id;
}

void BlockManager::publish_loan(LoanId id) {
  BlockLoan& filled = loans_.at(id);
  for (std::size_t group = 0; group < groups(); ++group) {
    for (std::size_t i = 0; i < filled.contents.size(); ++i) {
      const BlockId blank = std::exchange(filled.blank[group][i], kNoBlock);
      if (blank == kNoBlock) continue;
      publish(blank, filled.contents[i], group);
      filled.held[group][i] = blank;
    }
  }
  publish_state_on_loan(filled);
}

void BlockManager::publish_state_on_loan(BlockLoan& filled) {
  const StateSlot slot = std::exchange(filled.state, kNoSlot);
  if (slot == kNoSlot) return;
  --awaited_saves_;
  const ContentId contents = filled.contents.back();
  if (snapshot_after(contents) != kNoSlot) return states_.release(slot);
  states_.keep(slot, contents, false);
  contents_.hold(contents, groups(), slot);
}

void BlockManager::end_loan(LoanId id) {
  const BlockLoan ended = std::move(loans_.at(id));
  loans_.erase(id);
  if (ended.state != kNoSlot) {
    states_.release(ended.state);
    --awaited_saves_;
  }
  // In reverse order, like the blocks of a sequence.
  for (std::size_t i = ended.contents.size(); i-- > 0;) {
    for (const auto* tables : {&ended.held, &ended.blank}) {
      for (const std::vector<BlockId>& table : *tables) release(table[i]);
    }
  }
  contents_.drop(ended.contents.back());
}

}  // namespace tp
