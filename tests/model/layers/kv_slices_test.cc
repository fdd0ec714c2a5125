// Ranks of a host that share one copy of the cache compute the same bits as ranks with their own copies.
#include "model/config/config.h"
#include "model/kernels/simd/isa.h"
#include "model/memory/cache_slices.h"
#include "model/memory/kv_cache.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/reference/random.h"
#include "tp/mpi.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::ModelUnderTest;
using Options = ModelUnderTest::Options;

std::vector<std::size_t> all_ranks(std::size_t size) {
  std::vector<std::size_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

bool is_shared(const ModelSpec& spec, std::size_t ranks) {
  if (!can_share_cache(spec)) return false;
  const CacheSlices slices =
      CacheSlices::of(spec, {0, spec.blocks.size()}, {0, ranks}, all_ranks(ranks), kNominalBlocks);
  return std::ranges::any_of(slices.layers, [](const HostHeads& layer) { return layer.are_shared(); });
}

bool same_bits(const std::vector<float>& one, const std::vector<float>& other) {
  return std::ranges::equal(std::as_bytes(std::span(one)), std::as_bytes(std::span(other)));
}

// Returns the logits of a prompt and of some tokens after it.
std::vector<float> logits_of(const ModelSpec& spec, const WeightSource& source, const Fixture& fixture,
                             const Options& options) {
  ModelUnderTest model(test::world(), spec, source, options);
  std::vector<float> logits = model.append(fixture.prompt);
  for (const TokenId& token : std::span(fixture.greedy).first(fixture.greedy.size() - 1)) {
    const std::vector<float> next = model.append(std::span(&token, 1));
    logits.insert(logits.end(), next.begin(), next.end());
  }
  return logits;
}

class SharedFixture : public testing::TestWithParam<Fixture> {
 protected:
  ModelSpec spec_ = make_spec(load_config(GetParam().folder));
  std::unique_ptr<WeightSource> source_ = open_checkpoint(GetParam().folder);
};

TEST_P(SharedFixture, HasTheBitsOfPrivateCaches) {
  const std::size_t ranks = test::world().size();
  const std::size_t heads = load_config(GetParam().folder).num_attention_heads;
  if (ranks > heads || !is_shared(spec_, ranks)) GTEST_SKIP() << "no KV head has several readers";
  // With portable kernels, OpenBLAS computes long prompts' keys. Its sums depend on how many heads a rank
  // has.
  spec_.same_bits = kernels::active_isa() == kernels::Isa::portable;
  // Each fixture in one type and way.
  constexpr KvType kTypes[] = {KvType::f32, KvType::bf16, KvType::int8};
  const std::size_t kind = GetParam().name.size();
  const Options shared{.chunk = 20, .block_size = 8, .kv_type = kTypes[kind % 3], .in_halves = kind % 2 == 0};
  Options own = shared;
  own.kv_slices = false;
  Options hosts = shared;
  hosts.hosts = 2;
  const std::vector<float> expected = logits_of(spec_, *source_, GetParam(), own);
  EXPECT_TRUE(same_bits(logits_of(spec_, *source_, GetParam(), shared), expected));
  EXPECT_TRUE(same_bits(logits_of(spec_, *source_, GetParam(), hosts), expected)) << "on two hosts";
}

INSTANTIATE_TEST_SUITE_P(All, SharedFixture,
                         testing::ValuesIn(reference::fixtures_of(supported_architectures())),
                         reference::name_of_fixture);

// At least latents, a single KV head, and two KV heads.
TEST(SharedCaches, AreTestedWithSeveralFamilies) {
  std::size_t shared = 0;
  for (const Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const CheckpointConfig config = load_config(fixture.folder);
    const std::size_t ranks = test::world().size();
    shared += ranks <= config.num_attention_heads && is_shared(make_spec(config), ranks) ? 1 : 0;
  }
  EXPECT_GE(shared, 3U);
}

// Every rank has at most its part of the cache and a few bytes of rounding: 1.05 times the best division.
TEST(SharedCaches, TakeTheMemoryOfTheBestDivision) {
  for (const Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const ModelSpec spec = make_spec(load_config(fixture.folder));
    for (std::size_t ranks = 2; ranks <= 8; ++ranks) {
      if (ranks > load_config(fixture.folder).num_attention_heads || !is_shared(spec, ranks)) continue;
      const CacheGroups groups = CacheGroups::of(spec, 1);
      if (groups.windows.size() != 1) continue;  // blocks of windows have room that no layer uses
      const auto source = open_checkpoint(fixture.folder);
      const auto layouts = [&](std::size_t rank, std::size_t size) {
        return Model::shape_of(spec, *source, {rank, size}, WeightType::bf16).kv_layouts(KvType::bf16, 32);
      };
      const double whole = static_cast<double>(block_bytes(layouts(0, 1), groups));
      double sum = 0.0;
      double largest = 0.0;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const CacheSlices slices =
            CacheSlices::of(spec, {0, spec.blocks.size()}, {rank, ranks}, all_ranks(ranks), kNominalBlocks);
        const auto own = static_cast<double>(block_bytes(layouts(rank, ranks), groups, slices));
        sum += own;
        largest = std::max(largest, own);
      }
      EXPECT_NEAR(sum, whole, 0.01 * whole) << fixture.name << " on " << ranks << " ranks";
      double best = 0.0;  // share of the layers' caches
      std::size_t layers = 0;
      for (const BlockSpec& block : spec.blocks) {
        if (!keeps_keys(block)) continue;
        const HeadCounts counts = head_counts(block.attention);
        std::vector<Range> read;
        for (std::size_t rank = 0; rank < ranks; ++rank)
          read.push_back(shard_heads(counts.heads, counts.kv_heads, {rank, ranks}).kv_heads);
        double min = 0.0;
        for (std::size_t begin = 0; begin < counts.kv_heads; ++begin) {
          for (std::size_t end = begin + 1; end <= counts.kv_heads; ++end) {
            const auto readers = std::ranges::count_if(
                read, [&](Range heads) { return heads.begin < end && begin < heads.end; });
            min = std::max(min, static_cast<double>(end - begin) / static_cast<double>(readers));
          }
        }
        best += min / static_cast<double>(counts.kv_heads);
        ++layers;
      }
      EXPECT_LE(largest, 1.05 * whole * best / static_cast<double>(layers)) << fixture.name;
    }
  }
}

CheckpointConfig tiny_config(const char* architecture) {
  CheckpointConfig config;
  config.architecture = architecture;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 1;
  config.head_dim = 8;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 1;
  config.vocab_size = 64;
  config.max_position_embeddings = 32768;
  return config;
}

CheckpointConfig tiny_latent_config() {
  CheckpointConfig config = tiny_config("DeepseekV3ForCausalLM");
  config.num_key_value_heads = 4;
  config.latent.q_lora_rank = 32;
  config.latent.kv_lora_rank = 32;
  config.latent.qk_nope_head_dim = 16;
  config.latent.qk_rope_head_dim = 16;
  config.latent.v_head_dim = 16;
  config.experts.first_k_dense_replace = 1;
  return config;
}

// Two heads, whose scores are often zero: many positions have equal scores.
CheckpointConfig tiny_indexed_config() {
  CheckpointConfig config = tiny_latent_config();
  config.architecture = "GlmMoeDsaForCausalLM";
  config.num_hidden_layers = 3;
  config.experts.first_k_dense_replace = 3;
  config.indexer.topk = 100;
  config.indexer.n_heads = 2;
  config.indexer.head_dim = 16;
  config.indexer.types = {"full", "shared", "full"};
  return config;
}

class LongContext : public testing::TestWithParam<CheckpointConfig> {};

// Compares splits of several owners, in a prompt and in later tokens, with one rank.
TEST_P(LongContext, HasTheBitsOfOneRank) {
  if (test::world().size() > GetParam().num_attention_heads) GTEST_SKIP() << "more ranks than heads";
  const std::size_t length = GetParam().indexer.topk != 0 ? 2'500 : 20'000;
  ModelSpec spec = make_spec(GetParam());
  spec.same_bits = true;
  const SyntheticWeights source(DType::f32, 3);
  reference::Random random(7);
  std::vector<TokenId> tokens(length + 8);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.integer(0, spec.vocab_size - 1));
  const auto last_logits = [&](Communicator& comm, bool in_halves, std::size_t hosts) {
    ModelUnderTest model(comm, spec, source,
                         {.length = tokens.size(),
                          .block_size = 32,
                          .kv_type = KvType::bf16,
                          .in_halves = in_halves,
                          .hosts = hosts});
    model.append_silently(std::span(tokens).first(length));
    std::vector<float> logits;
    for (std::size_t i = length; i < tokens.size(); ++i) {
      const std::vector<float> next = model.append(std::span(tokens).subspan(i, 1));
      logits.insert(logits.end(), next.begin(), next.end());
    }
    return model.whole(logits);
  };
  // Only the first rank computes the whole model.
  std::vector<float> expected;
  if (test::world().is_root()) {
    Communicator self(MPI_COMM_SELF);
    expected = last_logits(self, false, 1);
  }
  barrier(test::world());  // the other ranks sleep
  EXPECT_TRUE(same_bits(last_logits(test::world(), false, 1), expected));
  // One half-batch's lists must not be used for the other half.
  if (GetParam().indexer.topk == 0) return;
  EXPECT_TRUE(same_bits(last_logits(test::world(), true, 1), expected)) << "in halves";
  EXPECT_TRUE(same_bits(last_logits(test::world(), true, 2), expected)) << "in halves, on two hosts";
}

INSTANTIATE_TEST_SUITE_P(Tiny, LongContext,
                         testing::Values(tiny_config("LlamaForCausalLM"), tiny_latent_config(),
                                         tiny_indexed_config()),
                         [](const auto& one) {
                           return one.param.indexer.topk != 0          ? "ChosenLatents"
                                  : one.param.latent.kv_lora_rank != 0 ? "Latents"
                                                                       : "OneKvHead";
                         });

}  // namespace
}  // namespace tp
