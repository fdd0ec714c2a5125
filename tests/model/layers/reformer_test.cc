// Reformer: cases that its fixture does not cover.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/attention/lsh_rotations.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/npy_array.h"
#include "tp/error.h"
#include "tp/mpi.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;
using test::ModelUnderTest;

json reformer_config() {
  return {{"architectures", {"ReformerModelWithLMHead"}},
          {"attn_layers", {"local", "lsh", "lsh"}},
          {"attention_head_size", 8},
          {"hidden_size", 24},
          {"feed_forward_size", 32},
          {"num_attention_heads", 4},
          {"vocab_size", 64},
          {"max_position_embeddings", 96},
          {"axial_pos_shape", {8, 12}},
          {"axial_pos_embds_dim", {8, 16}},
          {"local_attn_chunk_length", 8},
          {"lsh_attn_chunk_length", 8},
          {"num_hashes", 2},
          {"num_buckets", {2, 4}},
          {"hash_seed", 3}};
}

CheckpointConfig with(const json& changes) {
  json config = reformer_config();
  config.update(changes);
  return parse_config(config.dump(), "config.json");
}

std::string error_of(const json& changes) {
  return test::error_or_none<ConfigError>([&] { make_spec(with(changes)); });
}

// tests/data/lsh_rotations.npy is the result of torch.manual_seed(7); torch.randn(4, 12, 1, 2), as [48, 2].
TEST(LshRotations, MatchPyTorchs) {
  const NpyArray stored = read_npy(std::filesystem::path(TP_TEST_DATA) / "lsh_rotations.npy");
  const std::vector<float> drawn = torch_randn(7, stored.values.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) EXPECT_NEAR(drawn[i], stored.values[i], 2e-6) << i;
}

TEST(LshRotations, ForSomeHeadsAreAPartOfThoseForAllHeads) {
  const LshAttentionSpec spec{
      .num_attention_heads = 5, .head_dim = 6, .chunk_length = 4, .num_hashes = 2, .hash_seed = 9};
  const std::vector<std::size_t> factors = {4, 6};
  const std::vector<float> all = lsh_rotations(spec, factors, {0, 5});
  const std::vector<float> some = lsh_rotations(spec, factors, {2, 4});
  const std::size_t each = all.size() / 5;
  EXPECT_EQ(each, 2U * 5U * 6U);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + static_cast<std::ptrdiff_t>(2 * each)));
}

// The original code chooses these numbers without num_buckets: a power of two near twice the chunks, as two
// factors if it is large.
TEST(LshRotations, HaveBucketsByTheLengthIfTheConfigHasNone) {
  const LshAttentionSpec spec{.chunk_length = 8, .max_buckets = 16};
  using Factors = std::vector<std::size_t>;
  EXPECT_EQ(bucket_factors(spec, 16), (Factors{4}));
  EXPECT_EQ(bucket_factors(spec, 56), (Factors{8}));
  EXPECT_EQ(bucket_factors(spec, 64), (Factors{16}));
  EXPECT_EQ(bucket_factors(spec, 128), (Factors{4, 8}));
}

// Sequences of all lengths around the chunks, on this many ranks, against one rank.
TEST(Reformer, GivesTheSameBitsOnAnyRanksIfAskedFor) {
  Communicator& comm = test::world();
  for (const json& changes : {json::object(), json{{"num_buckets", nullptr}, {"num_hashes", 1}}}) {
    ModelSpec spec = make_spec(with(changes));
    spec.same_bits = true;
    const SyntheticWeights source(DType::f32, 4);
    Communicator self(MPI_COMM_SELF);
    ModelUnderTest whole(self, spec, source, {.length = 96});
    ModelUnderTest part(comm, spec, source, {.length = 96});
    for (const std::size_t length : {1U, 7U, 8U, 9U, 16U, 40U, 95U}) {
      std::vector<TokenId> tokens(length);
      for (std::size_t i = 0; i < length; ++i) tokens[i] = static_cast<TokenId>(i * i * 7 % 64);
      whole.restart();
      part.restart();
      const std::vector<float> expected = whole.append(tokens);
      const std::vector<float> found = part.append(tokens);
      const Range own = part.local_vocab();
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_EQ(found[i], expected[i / own.size() * 64 + own.begin + i % own.size()]) << length;
    }
  }
}

TEST(Reformer, ExplainsErrorsInAConfig) {
  EXPECT_EQ(error_of(json::object()), "no error");
  EXPECT_CONTAINS(error_of({{"attn_layers", {"local", "global"}}}), "attn_layers must be local or lsh");
  EXPECT_CONTAINS(error_of({{"num_buckets", 5}}), "num_buckets must be even");
  EXPECT_CONTAINS(error_of({{"axial_pos_embds_dim", {8, 8}}}), "two sizes that add up to hidden_size");
  EXPECT_CONTAINS(error_of({{"num_hashes", 1000}}), "64 hashes are supported");
}

}  // namespace
}  // namespace tp
