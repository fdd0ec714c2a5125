#include "model/config/ngrams/ngram_hash.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Numbers = std::vector<std::uint64_t>;

// Expected numbers are those of transformers' functions in modeling_qwen4_exp.py.
TEST(NgramHash, HasTheConstantsOfThePublishedModel) {
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafU);
  EXPECT_EQ(splitmix_multipliers(1234, 0, 3, 248320),
            (Numbers{23703573157769, 20109073645365, 8052911324071}));
  EXPECT_EQ(splitmix_multipliers(1234, 1, 3, 248320),
            (Numbers{3352040966061, 19752442147475, 10742103100073}));
  const NgramHash hash{.sizes = primes_from(20'000'000, 0, 16)};
  EXPECT_EQ(hash.sizes.front(), 20000003U);
  EXPECT_EQ(hash.sizes.back(), 20000171U);
  EXPECT_EQ(hash.total(), 320001446U);  // and 320,001,536 rows with padding, as published
}

TEST(NgramHash, GoesOnWithThePrimesOfTheTableBefore) {
  EXPECT_EQ(primes_from(2, 0, 6), (Numbers{2, 3, 5, 7, 11, 13}));
  EXPECT_EQ(primes_from(101, 2, 3), (Numbers{107, 109, 113}));
  EXPECT_EQ(offsets_of(primes_from(101, 0, 3)), (Numbers{0, 101, 204}));
}

NgramHash published() {
  NgramHash hash{.multipliers = splitmix_multipliers(1234, 0, 3, 248320),
                 .heads_per_ngram = 8,
                 .sizes = primes_from(20'000'000, 0, 16),
                 .boundary = 248044};
  hash.offsets = offsets_of(hash.sizes);
  return hash;
}

Numbers rows_of(const NgramHash& hash, const std::vector<TokenId>& window) {
  Numbers rows(hash.heads());
  hash.rows(window, rows);
  return rows;
}

TEST(NgramHash, ChoosesTheRowsOfTheOriginal) {
  EXPECT_EQ(
      rows_of(published(), {248000, 17, 99999}),
      (Numbers{2277038, 25903618, 42125998, 69775508, 98060540, 108429488, 124864724, 148424428, 167612093,
               193603501, 216542365, 228811354, 254162558, 260690317, 296461327, 317276279}));
}

TEST(NgramHash, SeesNothingBeforeABoundary) {
  const NgramHash hash = published();
  const TokenId end = hash.boundary;
  const TokenId none = NgramHash::kNoToken;
  const Numbers first = rows_of(hash, {5, none, none});
  EXPECT_EQ(rows_of(hash, {5, end, 7}), first);
  EXPECT_EQ(rows_of(hash, {5, end, end}), first);
  EXPECT_NE(rows_of(hash, {5, 7, end}), first);
  EXPECT_EQ(rows_of(hash, {5, 7, end}), rows_of(hash, {5, 7, none}));
  EXPECT_NE(rows_of(hash, {end, 7, 8}), rows_of(hash, {end, none, none}));  // as the current token, it sees
}

// Expected numbers are DeepSeek-V4.1-Flash's, with 99,092 folded ids.
TEST(EngramHash, HasTheConstantsOfThePublishedModel) {
  EXPECT_EQ(numpy_multipliers(1, 4, 99092),
            (Numbers{76632096046245, 4839876093313, 35959672319349, 73987337458391}));
  EXPECT_EQ(numpy_multipliers(14, 4, 99092),
            (Numbers{67716810739261, 51510806800915, 30921347202721, 82619226485591}));
  EXPECT_EQ(NgramHash{.sizes = primes_from(16'000'000, 0, 24)}.total(), 384006168U);
  EXPECT_EQ(NgramHash{.sizes = primes_from(16'000'000, 24, 24)}.total(), 384016682U);
}

// Folded ids 0, 1, 1 and 2, of which id 1 is padding; multipliers 3, 5 and 9.
NgramHash folding() {
  NgramHash hash{.multipliers = {3, 5, 9},
                 .heads_per_ngram = 1,
                 .sizes = {7, 11},
                 .offsets = {0, 7},
                 .boundary = 1,
                 .boundary_cuts = false,
                 .folded_size = 3,
                 .folded = {0, 1, 1, 2}};
  return hash;
}

TEST(EngramHash, HashesFoldedIds) {
  const NgramHash hash = folding();
  EXPECT_EQ(rows_of(hash, {3, 2, 0}), (Numbers{3, 10}));  // 6 xor 5 is 3, and 3 xor 0 is 3
  EXPECT_EQ(rows_of(hash, {3, 1, 0}),
            (Numbers{3, 10}));  // tokens 1 and 2 are equal, and padding cuts nothing
  EXPECT_EQ(rows_of(hash, {3, 2, 2}), (Numbers{3, 17}));  // 3 xor 9 is 10
}

TEST(EngramHash, PadsTheBeginningOfTheSequence) {
  const NgramHash hash = folding();
  const TokenId none = NgramHash::kNoToken;
  EXPECT_EQ(rows_of(hash, {3, 0, none}), (Numbers{6, 11}));     // 6 xor 0; 6 xor 9 is 15, and 15 mod 11 is 4
  EXPECT_EQ(rows_of(hash, {3, none, none}), (Numbers{3, 17}));  // like token 1 twice
  NgramHash cut = hash;
  cut.boundary_cuts = true;
  EXPECT_EQ(rows_of(cut, {3, 1, 0}), (Numbers{3, 17}));
}

TEST(EngramHash, FoldsIdsWithoutATokenToPaddingAndWithoutATokenizerByTheirRemainder) {
  NgramHash hash = folding();
  EXPECT_EQ(hash.folded_id(2), 1);
  EXPECT_EQ(hash.folded_id(4), 1);
  hash.folded.clear();
  EXPECT_EQ(hash.folded_id(2), 2);
  EXPECT_EQ(hash.folded_id(5), 2);
}

}  // namespace
}  // namespace tp
