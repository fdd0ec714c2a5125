// Random operations on a block manager with real contents. A cache position depends on all tokens up to it,
// so the model stores the whole beginning of the text at every position, and checks that a sequence still
// finds its own text there.
#include "runtime/cache/block_manager.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Tokens = std::vector<TokenId>;

std::uint64_t constant_hash(std::uint64_t, std::span<const TokenId>) { return 1; }
std::uint64_t two_bit_hash(std::uint64_t prefix, std::span<const TokenId> tokens) {
  return hash_of_block(prefix, tokens) & 3U;
}

struct ModelCase {
  const char* name;
  unsigned seed;
  std::size_t num_blocks;
  std::size_t block_size;
  BlockHash hash;
  CacheWindows windows = {std::nullopt};
  BlockOwners owners = {};
};

// Prevents GoogleTest from printing bytes.
void PrintTo(const ModelCase& c, std::ostream* stream) { *stream << c.name; }

class TestedModel {
 public:
  explicit TestedModel(const ModelCase& c)
      : random_(c.seed),
        windows_(c.windows),
        manager_(c.num_blocks, c.block_size, c.windows, c.hash, 0, c.owners),
        cache_(c.num_blocks * c.block_size) {}

  void operate() {
    const auto dice = random_() % 14;
    if (sequences_.empty() || (dice < 2 && sequences_.size() < 6)) {
      begin();
    } else if (dice < 8) {
      compute();
    } else if (dice < 10) {
      end();
    } else if (dice == 10) {
      lend();
    } else if (dice == 11) {
      lend_blank();
    } else {
      end_loan();
    }
    manager_.check_invariants();
    for (const auto& [id, sequence] : sequences_) expect_intact(id, sequence);
    for (const auto& [id, text] : loans_) expect_intact(id, text);
  }

  void end_all() {
    while (!sequences_.empty()) end();
    while (!loans_.empty()) end_loan();
    manager_.check_invariants();
    EXPECT_EQ(manager_.free_blocks(), manager_.num_blocks());
  }

  std::size_t tokens_found() const { return tokens_found_; }
  std::size_t refusals() const { return refusals_; }
  std::size_t blocks_lent() const { return blocks_lent_; }
  std::size_t blocks_filled() const { return blocks_filled_; }

 private:
  struct Sequence {
    std::string salt;
    Tokens tokens;
    std::size_t computed = 0;
  };
  // A position of the cache.
  struct Slot {
    std::size_t group = 0;  // group of the writing sequence
    std::string salt;       // salt of the writing sequence
    Tokens text;            // tokens up to the written position
  };

  // Uses only two different tokens, so common beginnings are frequent.
  void extend(Tokens& tokens, std::size_t count) {
    for (; count > 0; --count) tokens.push_back(static_cast<TokenId>(random_() % 2));
  }

  Tokens random_prompt() {
    Tokens tokens;
    if (!ended_.empty() && random_() % 2 == 0) tokens = ended_[random_() % ended_.size()];
    if (!tokens.empty()) tokens.resize(1 + random_() % tokens.size());
    extend(tokens, 1 + random_() % (2 * manager_.block_size()));
    return tokens;
  }

  void begin() {
    Sequence sequence{.salt = random_() % 3 == 0 ? "s" : "", .tokens = random_prompt()};
    const std::size_t free_before = manager_.free_blocks();
    const PrefixMatch match = manager_.match_prefix(sequence.tokens, sequence.salt);
    sequence.computed = manager_.begin_sequence(next_id_, sequence.tokens, sequence.salt);
    EXPECT_EQ(sequence.computed, match.tokens);
    EXPECT_EQ(manager_.free_blocks(), free_before - match.free_blocks);
    EXPECT_EQ(sequence.computed % manager_.block_size(), 0U);
    EXPECT_LT(sequence.computed, sequence.tokens.size());
    tokens_found_ += sequence.computed;
    sequences_.emplace(next_id_++, std::move(sequence));
  }

  void compute() {
    const auto chosen = std::next(sequences_.begin(), static_cast<long>(random_() % sequences_.size()));
    auto& [id, sequence] = *chosen;
    if (sequence.computed == sequence.tokens.size()) extend(sequence.tokens, 1);
    const std::size_t end = sequence.computed + 1 + random_() % (sequence.tokens.size() - sequence.computed);
    if (!reserve(id, end)) return;
    for (std::size_t position = sequence.computed; position < end; ++position) write(id, sequence, position);
    sequence.computed = end;
    manager_.commit(id, sequence.tokens, end);
  }

  // [groups]
  std::vector<std::vector<BlockId>> tables_of(SequenceId id) const {
    std::vector<std::vector<BlockId>> tables;
    for (std::size_t group = 0; group < windows_.size(); ++group) {
      const auto table = manager_.table(id, group);
      tables.emplace_back(table.begin(), table.end());
    }
    return tables;
  }

  bool reserve(SequenceId id, std::size_t total_tokens) {
    const std::size_t free_before = manager_.free_blocks();
    std::vector<std::vector<BlockId>> expected = tables_of(id);
    std::vector<BlockId> new_blocks;
    const std::size_t length = expected.front().size();
    const std::size_t needed = manager_.blocks_for(total_tokens);
    const std::size_t missing = needed > length ? (needed - length) * expected.size() : 0;
    const bool reserved = manager_.try_reserve(id, total_tokens, new_blocks);
    EXPECT_EQ(reserved, missing <= free_before);
    EXPECT_EQ(new_blocks.size(), reserved ? missing : 0);
    EXPECT_EQ(manager_.free_blocks(), free_before - new_blocks.size());
    auto next = new_blocks.begin();
    const auto each = static_cast<std::ptrdiff_t>(new_blocks.size() / expected.size());
    for (std::vector<BlockId>& table : expected) {
      table.insert(table.end(), next, next + each);
      next += each;
    }
    EXPECT_EQ(tables_of(id), expected);
    refusals_ += reserved ? 0 : 1;
    return reserved;
  }

  Slot& slot(SequenceId id, std::size_t group, std::size_t position) {
    const auto block = static_cast<std::size_t>(manager_.table(id, group)[position / manager_.block_size()]);
    return cache_.at(block * manager_.block_size() + position % manager_.block_size());
  }

  void write(SequenceId id, const Sequence& sequence, std::size_t position) {
    const auto end = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(position) + 1;
    for (std::size_t group = 0; group < windows_.size(); ++group)
      slot(id, group, position) = {group, sequence.salt, {sequence.tokens.begin(), end}};
  }

  // Checks the positions that the next token sees, in every group.
  void expect_intact(SequenceId id, const Sequence& sequence) {
    for (std::size_t group = 0; group < windows_.size(); ++group) {
      const std::size_t window = windows_[group].value_or(sequence.computed + 1);
      const std::size_t begin = sequence.computed + 1 > window ? sequence.computed + 1 - window : 0;
      for (std::size_t position = begin; position < sequence.computed; ++position) {
        const Slot& held = slot(id, group, position);
        ASSERT_EQ(held.group, group);
        ASSERT_EQ(held.salt, sequence.salt);
        ASSERT_EQ(held.text.size(), position + 1);
        ASSERT_TRUE(std::equal(held.text.begin(), held.text.end(), sequence.tokens.begin()));
      }
    }
  }

  static constexpr std::size_t kMaxLoans = 2;

  // Lends published blocks of a sequence.
  void lend() {
    if (sequences_.empty() || loans_.size() == kMaxLoans) return;
    const auto chosen = std::next(sequences_.begin(), static_cast<long>(random_() % sequences_.size()));
    const auto& [id, sequence] = *chosen;
    const std::size_t blocks = sequence.computed / manager_.block_size();
    if (blocks == 0) return;
    const std::size_t begin = random_() % blocks;
    loans_[manager_.lend(manager_.contents_of(id, {begin, blocks}))] = {sequence.salt, sequence.tokens,
                                                                        begin};
  }

  void lend_blank() {
    if (loans_.size() == kMaxLoans) return;
    const std::string salt = random_() % 3 == 0 ? "s" : "";
    const Tokens tokens = random_prompt();
    const std::size_t blocks = tokens.size() / manager_.block_size();
    if (blocks == 0) return;
    const std::size_t free_before = manager_.free_blocks();
    const std::size_t max = free_before - random_() % (free_before + 1) / 4;
    const auto loan = manager_.lend_blank(tokens, salt, blocks, max);
    EXPECT_LE(free_before - manager_.free_blocks(), loan ? max : 0);
    if (loan) loans_[*loan] = {salt, tokens, 0};
  }

  // Fills and publishes the blank blocks, or fills them with nonsense.
  void end_loan() {
    if (loans_.empty()) return;
    const auto chosen = std::next(loans_.begin(), static_cast<long>(random_() % loans_.size()));
    const auto id = chosen->first;
    const auto& text = chosen->second;  // clang 14 cannot capture a structured binding
    const bool is_filled = random_() % 3 != 0;
    for_slots(manager_.loan(id).blank, text.first, [&](Slot& slot, std::size_t group, std::size_t position) {
      const auto end = text.tokens.begin() + static_cast<std::ptrdiff_t>(position) + 1;
      slot = is_filled ? Slot{group, text.salt, {text.tokens.begin(), end}} : Slot{99, "nonsense", {}};
      if (is_filled) ++blocks_filled_;
    });
    if (is_filled) {
      manager_.publish_loan(id);
      expect_intact(id, text);
    }
    manager_.end_loan(id);
    loans_.erase(chosen);
  }

  // Calls visit(slot, group, position) for the slots of these blocks, [groups][blocks], from block `first`.
  template <class Visit>
  void for_slots(const std::vector<std::vector<BlockId>>& tables, std::size_t first, const Visit& visit) {
    const std::size_t size = manager_.block_size();
    for (std::size_t group = 0; group < tables.size(); ++group) {
      for (std::size_t i = 0; i < tables[group].size() * size; ++i) {
        const BlockId block = tables[group][i / size];
        if (block == kNoBlock) continue;
        visit(cache_.at(static_cast<std::size_t>(block) * size + i % size), group, first * size + i);
      }
    }
  }

  struct LentText {
    std::string salt;
    Tokens tokens;
    std::size_t first = 0;  // index of the loan's first block
  };

  void expect_intact(LoanId id, const LentText& text) {
    for_slots(manager_.loan(id).held, text.first,
              [&](const Slot& held, std::size_t group, std::size_t position) {
                EXPECT_EQ(held.group, group);
                EXPECT_EQ(held.salt, text.salt);
                ASSERT_EQ(held.text.size(), position + 1);
                ASSERT_TRUE(std::equal(held.text.begin(), held.text.end(), text.tokens.begin()));
                ++blocks_lent_;
              });
  }

  void end() {
    const auto chosen = std::next(sequences_.begin(), static_cast<long>(random_() % sequences_.size()));
    manager_.end_sequence(chosen->first);
    ended_.push_back(chosen->second.tokens);
    sequences_.erase(chosen);
  }

  std::mt19937 random_;
  CacheWindows windows_;
  BlockManager manager_;
  std::vector<Slot> cache_;  // [num_blocks * block_size]
  std::map<SequenceId, Sequence> sequences_;
  std::map<LoanId, LentText> loans_;
  std::vector<Tokens> ended_;
  SequenceId next_id_ = 1;
  std::size_t tokens_found_ = 0;
  std::size_t refusals_ = 0;
  std::size_t blocks_lent_ = 0;
  std::size_t blocks_filled_ = 0;
};

class BlockManagerModel : public ::testing::TestWithParam<ModelCase> {};

TEST_P(BlockManagerModel, EverySequenceAlwaysFindsItsOwnText) {
  TestedModel model(GetParam());
  for (int i = 0; i < 10000; ++i) {
    model.operate();
    ASSERT_FALSE(HasFailure()) << "operation " << i;
  }
  model.end_all();
  // The test is meaningful only if these cases occur.
  EXPECT_GT(model.tokens_found(), 100U);
  EXPECT_GT(model.refusals(), 10U);
  EXPECT_GT(model.blocks_lent(), 100U);
  EXPECT_GT(model.blocks_filled(), 100U);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BlockManagerModel,
    ::testing::Values(
        ModelCase{"GoodHash", 1, 14, 4, hash_of_block}, ModelCase{"ConstantHash", 2, 14, 4, constant_hash},
        ModelCase{"TwoBitHash", 3, 14, 4, two_bit_hash}, ModelCase{"SmallBlocks", 4, 30, 1, two_bit_hash},
        ModelCase{"FewBlocks", 5, 5, 3, hash_of_block}, ModelCase{"OneWindow", 6, 7, 4, hash_of_block, {6}},
        ModelCase{"WindowsOfABlock", 7, 20, 2, two_bit_hash, {2, {}}},
        ModelCase{"ThreeGroups", 8, 40, 3, hash_of_block, {{}, 5, 5}},
        ModelCase{"Owners", 10, 14, 4, hash_of_block, {{}}, {3, 2}},
        ModelCase{"OwnersAndWindows", 11, 40, 3, hash_of_block, {{}, 5, 5}, {7, 1}},
        ModelCase{"NarrowWindows", 9, 14, 1, constant_hash, {1, 3}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tp
