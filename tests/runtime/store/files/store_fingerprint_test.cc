#include "runtime/store/files/store_fingerprint.h"

#include "model/config/spec.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

std::string facts_with(const std::vector<TokenId>& folded) {
  ModelSpec spec;
  spec.blocks.resize(2);
  if (!folded.empty())
    spec.blocks.back().hash_table = HashTableSpec{.hash = {.folded_size = 2, .folded = folded}};
  return store_facts({}, spec, {});
}

// Another tokenizer.json chooses other rows of hash tables, so stored states do not fit.
TEST(StoreFacts, DependOnTheFoldedIdsOfHashTables) {
  EXPECT_EQ(facts_with({0, 1, 1}), facts_with({0, 1, 1}));
  EXPECT_NE(facts_with({0, 1, 1}), facts_with({0, 0, 1}));
  EXPECT_EQ(facts_with({}).find("folding"), std::string::npos);
}

}  // namespace
}  // namespace tp
