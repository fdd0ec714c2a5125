// Falcon's variants against a naive decoder, because the fixtures cover only two, and the communication of
// its blocks.
#include "tests/reference/falcon.h"

#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/random.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;
using test::ModelUnderTest;

constexpr double kTolerance = 1e-4;  // as in decoder_test.cc

CheckpointConfig random_config(Random& random, std::size_t ranks) {
  CheckpointConfig config = family_of("FalconForCausalLM").defaults;
  config.architecture = "FalconForCausalLM";
  config.new_decoder_architecture = random.coin();
  config.parallel_attn = random.coin();
  config.num_ln_in_parallel_attn = config.new_decoder_architecture ? random.integer(0, 2) : 0;
  config.alibi = random.coin();
  config.attention_bias = config.mlp_bias = random.coin();
  config.tie_word_embeddings = random.coin();
  config.num_attention_heads = ranks * random.integer(1, 3) + random.integer(0, 3);
  config.num_key_value_heads = random.coin() ? 1 : config.num_attention_heads;
  if (config.new_decoder_architecture && config.num_attention_heads % 2 == 0) config.num_key_value_heads = 2;
  config.head_dim = 2 * random.integer(1, 9);
  config.hidden_size = random.integer(8, 70);
  config.intermediate_size = random.integer(1, 150);
  config.num_hidden_layers = random.integer(1, 3);
  config.vocab_size = random.integer(ranks, 120);
  return config;
}

TEST(Falcon, OverRanksEqualsTheNaiveDecoderInAllItsVariants) {
  Communicator& comm = test::world();
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const CheckpointConfig config = random_config(random, comm.size());
    SCOPED_TRACE(fmt::format("seed {}: new {}, parallel {}, {} norms, alibi {}, {} heads, {} kv heads of {}",
                             seed, config.new_decoder_architecture, config.parallel_attn,
                             config.num_ln_in_parallel_attn, config.alibi, config.num_attention_heads,
                             config.num_key_value_heads, config.head_dim));
    const SyntheticWeights source(DType::f32, seed);
    std::vector<TokenId> tokens(random.integer(1, 40));
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.integer(0, config.vocab_size - 1));
    ModelUnderTest decoder(
        comm, config, source,
        {.length = 40, .chunk = random.integer(1, 40), .block_size = random.integer(1, 20)});
    const std::vector<float> logits = decoder.append(tokens);
    EXPECT_LE(decoder.difference(logits, reference::Falcon(config, source).logits(tokens)), kTolerance);
  }
}

// Checks the naive decoder with the fixtures.
TEST(Falcon, FixturesMatchTheNaiveDecoder) {
  if (test::world().size() != 1) GTEST_SKIP() << "no ranks in it";
  for (const reference::Fixture& fixture : reference::fixtures_of({"FalconForCausalLM"})) {
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    const reference::Matrix logits =
        reference::Falcon(load_config(fixture.folder), *source).logits(fixture.prompt);
    EXPECT_LE(fixture.rows.difference(std::vector<float>(logits.values.begin(), logits.values.end())), 1e-4)
        << fixture.name;
  }
}

TEST(Falcon, RunsOneAllReduceForAParallelBlockAndTwoForASequentialOne) {
  Communicator& comm = test::world();
  for (const bool parallel : {true, false}) {
    Random random(1);
    CheckpointConfig config = random_config(random, comm.size());
    config.new_decoder_architecture = false;
    config.parallel_attn = parallel;
    config.num_hidden_layers = 3;
    const SyntheticWeights source(DType::f32, 1);
    ModelUnderTest decoder(comm, config, source, {.length = 8, .chunk = 8});
    comm.stats() = CommStats{};
    decoder.append(std::vector<TokenId>{0, 0, 0});
    EXPECT_EQ(comm.stats().all_reduce.calls, (parallel ? 1U : 2U) * 3 + 1);
  }
}

}  // namespace
}  // namespace tp
