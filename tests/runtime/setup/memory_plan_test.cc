// Memory plans for machines of any size, computed without their memory.
#include "runtime/setup/memory_plan.h"

#include "model/config/architectures.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "runtime/text/format_bytes.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::error_of;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

CheckpointConfig one_gigabyte_in_bf16() {
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 1024;
  config.intermediate_size = 4096;
  config.num_hidden_layers = 32;
  config.num_attention_heads = 16;
  config.num_key_value_heads = 16;
  config.head_dim = 64;
  config.vocab_size = 1000;
  config.max_position_embeddings = 8192;
  config.torch_dtype = DType::bf16;
  return config;
}

class MemoryPlanTest : public testing::Test {
 protected:
  MemoryPlanTest() {
    plan_.config = one_gigabyte_in_bf16();
    plan_.options.weights.reset();
    plan_.options.kv_type = KvType::bf16;
    plan_.options.block_size = 32;
    plan_.options.prefill_chunk = 64;
    plan_.options.max_sequences = 4;
    plan_.options.max_length = 8192;
    spec_ = make_spec(plan_.config);
  }

  Footprint footprint() const { return {spec_, plan_, weights_}; }

  // Returns `per_host` ranks on each of these hosts, whose memory is given in bytes. Rank r is on host r %
  // number of hosts.
  std::vector<RankMemory> ranks_on(const std::vector<std::uint64_t>& hosts, std::size_t per_host) {
    placement_ = {};
    placement_.hosts.resize(hosts.size());
    std::vector<RankMemory> ranks(hosts.size() * per_host);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::size_t host = rank % hosts.size();
      placement_.processes.push_back({0, fmt::format("node{}", host)});
      placement_.hosts[host].push_back(rank);
      placement_.host_of.push_back(host);
      ranks[rank] = {.need = footprint().of({rank, ranks.size()}),
                     .memory = hosts[host],
                     .addresses = UINT64_MAX,
                     .memory_limit = "MemAvailable",
                     .tensor_rank = rank};
    }
    return ranks;
  }
  // Plans the cache for ranks that ranks_on has placed.
  CachePlan cache(const std::vector<RankMemory>& ranks, std::size_t tokens = 0) const {
    return plan_cache(plan_, footprint(), ranks, placement_, tokens);
  }
  std::string refusal(const std::vector<RankMemory>& ranks, std::size_t tokens = 0) const {
    return error_of<ConfigError>([&] { cache(ranks, tokens); });
  }
  MemoryNeed need_of(std::size_t ranks) const {
    MemoryNeed need;
    for (std::size_t rank = 0; rank < ranks; ++rank) need += footprint().of({rank, ranks});
    return need;
  }
  // Returns the bytes that a host needs for this many ranks with a cache of this many tokens.
  std::uint64_t room_for(std::uint64_t tokens, std::size_t ranks) const {
    return need_of(ranks).with_blocks(tokens / 32);
  }

  EnginePlan plan_;
  ModelSpec spec_;
  SyntheticWeights weights_{DType::bf16};
  Placement placement_;
};

TEST_F(MemoryPlanTest, GivesAllSequencesRoomIfMemoryAllows) {
  const CachePlan plenty = cache(ranks_on({100 * kGiB}, 2));
  EXPECT_EQ(plenty.blocks, 4U * 8192 / 32);
  EXPECT_EQ(plenty.notice, "");
  EXPECT_EQ(cache(ranks_on({100 * kGiB}, 2), 33).blocks, 2U);
}

TEST_F(MemoryPlanTest, UsesHalfOfTheRemainingMemoryForADefaultCache) {
  const CachePlan half = cache(ranks_on({room_for(3 * 8192, 1)}, 1));
  EXPECT_EQ(half.blocks, 3U * 8192 / 32 / 2);
  EXPECT_EQ(half.notice, "") << "every sequence fits";
}

TEST_F(MemoryPlanTest, ShrinksTheCacheWithANotice) {
  const CachePlan asked = cache(ranks_on({room_for(3200, 2)}, 2), 1'000'000);
  EXPECT_EQ(asked.blocks, 100U);
  EXPECT_EQ(
      asked.notice,
      fmt::format(
          "the KV cache has room for 3200 tokens instead of 1000000: node0 has {} of memory (MemAvailable), "
          "of which everything except the cache takes {}; smaller types (`weights`, `kv_type`) or more hosts "
          "leave more memory for it",
          format_bytes(room_for(3200, 2)), format_bytes(without_cache(need_of(2)))));
  // A default cache has room for at least 2048 tokens, even if that is more than half of the remaining
  // memory.
  const CachePlan chosen = cache(ranks_on({room_for(3200, 2)}, 2));
  EXPECT_EQ(chosen.blocks, 2048U / 32);
  EXPECT_CONTAINS(chosen.notice,
                  "has room for 2048 tokens instead of the 8192 of the longest sequence: node0 has");
}

TEST_F(MemoryPlanTest, RejectsOversizedPlansAndNamesTheLargestThatFits) {
  const MemoryNeed need = need_of(2);
  EXPECT_EQ(
      refusal(ranks_on({kGiB}, 2)),
      fmt::format(
          "cannot load the model: 2 ranks on node0 would need {} of memory (weights {}, workspace {}, "
          "a cache of 2048 tokens 256.0 MiB, other 128.0 MiB), but only 1.0 GiB are available "
          "(MemAvailable); what would fit: `weights` int8; or 4 ranks on 2 times as many hosts",
          format_bytes(need.with_blocks(64)), format_bytes(need.weights), format_bytes(need.workspace)));
  // The host has room for a smaller cache only. Smaller weights would help, too.
  const std::string shorter = refusal(ranks_on({room_for(640, 1)}, 1));
  EXPECT_CONTAINS(shorter,
                  "what would fit: `weights` int8; or 2 ranks on 2 times as many hosts; or a smaller "
                  "cache (`cache_tokens` 640)");
  EXPECT_EQ(cache(ranks_on({room_for(640, 1)}, 1), 640).blocks, 20U) << "who asks for less gets it";
  EXPECT_CONTAINS(refusal(ranks_on({kGiB / 64}, 1)), "; use a smaller model, or hosts with more memory");
}

// The numbers in the error are the parts of the peak, and its advice works.
TEST_F(MemoryPlanTest, NamesTheBuffersOfLoadingIfTheyAreThePeak) {
  const MemoryNeed two = need_of(2);
  const std::uint64_t available = while_loading(two) - 1;
  ASSERT_LT(without_cache(two) + two.cache_block, available) << "a smaller cache has room, and does not help";
  ASSERT_LE(need_of(1).with_blocks(1), available);
  EXPECT_EQ(
      refusal(ranks_on({available}, 2), 32),
      fmt::format("cannot load the model: 2 ranks on node0 would need {} of memory (weights {}, buffers to "
                  "load them {}, other 128.0 MiB), but only {} are available (MemAvailable); what would "
                  "fit: `weights` int8; or 4 ranks on 2 times as many hosts; or 1 rank",
                  format_bytes(while_loading(two)), format_bytes(two.weights), format_bytes(two.loading),
                  format_bytes(available)));
  EXPECT_EQ(cache(ranks_on({available}, 1), 32).blocks, 1U);
  EXPECT_EQ(while_loading(two), two.weights + two.loading + two.other);
}

// The draft model occupies the first rank only. More ranks or smaller weights do not change its memory.
TEST_F(MemoryPlanTest, CountsADraftModelsMemoryOnce) {
  const MemoryNeed draft{.weights = kGiB / 2, .workspace = kGiB / 16};
  std::vector<RankMemory> ranks = ranks_on({kGiB + kGiB / 4, kGiB + kGiB / 4}, 1);
  ranks[0].beside = draft;
  ranks[0].need += draft;
  plan_.options.weights = WeightType::f32;
  for (RankMemory& rank : ranks) rank.need.weights *= 2;
  const std::string refused = refusal(ranks);
  EXPECT_CONTAINS(refused, "cannot load the model: 1 rank on node0 would need ");
  EXPECT_CONTAINS(refused, "what would fit: `weights` int8; or ");
  // With another half GiB on the first rank, bf16 fits: the draft model's memory is not charged to the second
  // rank.
  ranks[0].memory += kGiB / 2;
  EXPECT_CONTAINS(refusal(ranks), "what would fit: `weights` bf16; or ");
}

// The model has heads for 16 ranks only.
TEST_F(MemoryPlanTest, DoesNotAdviseMoreRanksThanThereCanBe) {
  EXPECT_EQ(refusal(ranks_on({kGiB / 4}, 16)).find("ranks on 2 times"), std::string::npos);
}

TEST_F(MemoryPlanTest, AddsUpTheRanksOfEveryHostAndNamesTheOneThatLacksMost) {
  EXPECT_EQ(cache(ranks_on({2 * kGiB, 2 * kGiB}, 2), 64).notice, "");
  const std::string poor = refusal(ranks_on({2 * kGiB, kGiB / 2, kGiB / 4}, 2));
  EXPECT_CONTAINS(poor, "cannot load the model: 2 ranks on node2 would need ");
  EXPECT_CONTAINS(poor, "only 256.0 MiB are available");
}

TEST_F(MemoryPlanTest, LeavesEveryRankWithinItsAddresses) {
  std::vector<RankMemory> ranks = ranks_on({100 * kGiB}, 2);
  // The plan leaves half a GiB of addresses to allocations that only reserve them, unless the cache would
  // become too small.
  ranks[1].addresses = ranks[1].need.with_blocks(100) + kGiB / 2;
  EXPECT_EQ(cache(ranks, 1'000'000).blocks, 100U);
  ranks[1].addresses = ranks[1].need.with_blocks(64);
  EXPECT_EQ(cache(ranks, 1'000'000).blocks, 64U);
  ranks[1].addresses = kGiB / 2;
  const std::string refused = refusal(ranks);
  EXPECT_CONTAINS(refused, "cannot load the model: rank 1 on node0 would need ");
  EXPECT_CONTAINS(refused,
                  "only 512.0 MiB are available (ulimit -v); what would fit: `weights` int8; or 4 ranks");
}

TEST_F(MemoryPlanTest, SurvivesACacheOfEveryNumberOfTokens) {
  EXPECT_EQ(cache(ranks_on({room_for(3200, 1)}, 1), SIZE_MAX).blocks, 100U);
}

// Every second layer has a window of 1000. A sequence has at most 35 blocks of these layers, wherever blocks
// begin: 999 tokens and a chunk of 64.
TEST_F(MemoryPlanTest, PlansForTheWindowOfWindowedLayers) {
  const MemoryNeed all = need_of(1);
  for (std::size_t layer = 0; layer < spec_.blocks.size(); layer += 2)
    std::get<AttentionSpec>(spec_.blocks[layer].attention).pattern.window = 1000;
  EXPECT_EQ(need_of(1).cache_block, all.cache_block / 2);
  EXPECT_EQ(cache(ranks_on({100 * kGiB}, 2)).blocks, 4U * (8192 / 32 + 35));
  // The cache's tokens belong to four sequences, and each may have the blocks of one window.
  EXPECT_EQ(cache(ranks_on({100 * kGiB}, 2), 64).blocks, 4U);
  EXPECT_EQ(cache(ranks_on({100 * kGiB}, 2), 32000).blocks, 1000U + 4 * 35);
  const CachePlan tight = cache(ranks_on({room_for(32 * 200, 1)}, 1), 1'000'000);
  EXPECT_EQ(tight.blocks, 200U);
  EXPECT_CONTAINS(tight.notice, "the KV cache has room for 3200 tokens instead of 1000000: ");
  const CachePlan longest = cache(ranks_on({room_for(32 * 200, 1)}, 1));
  EXPECT_EQ(longest.blocks, 100U);
  EXPECT_CONTAINS(longest.notice,
                  "has room for 2080 tokens instead of the 8192 of the longest sequence: node0 has");
}

// Every second layer keeps a state of 16 heads with 64 x 64 elements, and 3 inputs of a convolution with 3 x
// 1024 channels. For up to 15 tokens, it also keeps the heads' keys, additions and decays.
TEST_F(MemoryPlanTest, PlansForTheStatesOfRecurrentLayers) {
  const MemoryNeed all = need_of(1);
  for (std::size_t layer = 0; layer < spec_.blocks.size(); layer += 2)
    spec_.blocks[layer].attention = GatedDeltaNetSpec{.num_key_heads = 16,
                                                      .num_value_heads = 16,
                                                      .key_head_dim = 64,
                                                      .value_head_dim = 64,
                                                      .conv_kernel = 4,
                                                      .norm = {}};
  const MemoryNeed need = need_of(1);
  EXPECT_EQ(need.cache_block, all.cache_block / 2);
  const std::size_t state = 16 * 64 * 64 + 3 * 3 * 1024 + 16 * (15 * (64 + 64) + 16);
  EXPECT_EQ(need.states, 4U * plan_.options.max_sequences * 16 * state * sizeof(float));
  EXPECT_EQ(need_of(2).states, need.states) << "a rank keeps those of its heads";
  EXPECT_EQ(cache(ranks_on({room_for(3200, 1)}, 1), 3200).blocks, 100U);
  // The host has room for the smallest cache and half of the states.
  const std::string refused = refusal(ranks_on({room_for(2048, 1) - need.states / 2}, 1));
  EXPECT_CONTAINS(refused, fmt::format(", states {}, other ", format_bytes(need.states)));
  EXPECT_CONTAINS(refused, "; or `max_sequences` 2");
}

TEST(CacheShape, CountsTheBlocksOfSequences) {
  const CacheShape full{.block_size = 4, .chunk = 8, .windows = {std::nullopt}};
  EXPECT_EQ(full.blocks_for(0), 0U);
  EXPECT_EQ(full.blocks_for(9), 3U);
  EXPECT_EQ(full.blocks_for(9, 5), 3U);
  EXPECT_EQ(full.tokens_in(3, 5, 100), 12U);
  const CacheShape both{.block_size = 4, .chunk = 8, .windows = {std::nullopt, 10}};
  EXPECT_EQ(both.blocks_for(9), 6U);
  EXPECT_EQ(both.blocks_for(400), 100U + 5);
  EXPECT_EQ(both.blocks_for(400, 3), 100U + 15);
  EXPECT_EQ(both.tokens_in(105, 1, 1000), 400U);
  const CacheShape windowed{.block_size = 4, .chunk = 8, .windows = {10}};
  EXPECT_EQ(windowed.blocks_for(SIZE_MAX), 5U);
  EXPECT_EQ(windowed.tokens_in(4, 1, 1000), 16U);
  EXPECT_EQ(windowed.tokens_in(5, 1, 1000), 1000U) << "as long as the model allows";
}

// The files have tensors of many types. Loading shows how much memory they occupy.
TEST(Footprint, MatchesTheMemoryOfLoadedQuantizedModels) {
  for (const reference::Fixture& fixture : reference::gguf_fixtures()) {
    EnginePlan plan;
    plan.config = load_config(fixture.folder / "model.gguf");
    plan.options.weights.reset();
    plan.options.block_size = plan.options.prefill_chunk = plan.options.max_sequences =
        plan.options.max_length = 32;
    const ModelSpec spec = make_spec(plan.config);
    const auto source = GgufCheckpoint::open(fixture.folder / "model.gguf");
    for (const std::size_t rank : {0U, 1U}) {
      const Model decoder(spec, *source, {rank, 2}, std::nullopt);
      EXPECT_EQ(Footprint(spec, plan, *source).of({rank, 2}).weights, decoder.weight_bytes()) << fixture.name;
    }
  }
}

// The ranks of a stage map the same pages. Tables are not part of a need, which may fill the whole memory.
TEST_F(MemoryPlanTest, CountsTheTablesOfAHostOnce) {
  std::vector<RankMemory> ranks = ranks_on({10 * kGiB}, 4);
  const std::uint64_t blocks = cache(ranks).blocks;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ranks[rank].stage = rank / 2;
    ranks[rank].need.tables = (rank / 2 == 0 ? 3 : 5) * kGiB;
  }
  EXPECT_EQ(tables_on(ranks, placement_.hosts.front()), 8 * kGiB);
  EXPECT_EQ(cache(ranks).blocks, blocks);
}

TEST_F(MemoryPlanTest, KnowsWhetherAHostHasNoRoomForTables) {
  const auto lacks = [&](const std::vector<std::uint64_t>& hosts, std::uint64_t tables) {
    std::vector<RankMemory> ranks = ranks_on(hosts, 1);
    for (RankMemory& rank : ranks) rank.need.tables = tables;
    return lacks_room_for_tables(ranks, placement_);
  };
  const std::uint64_t rest = without_cache(footprint().of({0, 2}));
  EXPECT_FALSE(lacks({rest + kGiB, rest + kGiB}, kGiB));
  EXPECT_TRUE(lacks({rest + kGiB - 1, rest + kGiB}, kGiB));
  EXPECT_FALSE(lacks({1, 1}, 0)) << "the model has no tables";
}

}  // namespace
}  // namespace tp
