// Predictions of `tp-infer plan`: memory equals the engine's own arithmetic, and times match cases computed
// by hand.
#include "runtime/plan/prediction.h"

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "runtime/setup/measured_split.h"
#include "tests/expect_contains.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

CheckpointConfig llama() {
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 1024;
  config.intermediate_size = 4096;
  config.num_hidden_layers = 8;
  config.num_attention_heads = 16;
  config.num_key_value_heads = 4;
  config.head_dim = 64;
  config.vocab_size = 32000;
  config.max_position_embeddings = 8192;
  config.torch_dtype = DType::bf16;
  return config;
}

class PredictionTest : public testing::Test {
 protected:
  explicit PredictionTest(const CheckpointConfig& config = llama()) {
    plan_.config = config;
    plan_.options.kv_type = KvType::bf16;
    plan_.options.block_size = 32;
    plan_.options.prefill_chunk = 512;
    plan_.options.max_sequences = 4;
    plan_.options.max_length = 1024;
    spec_ = make_spec(plan_.config);
  }

  Prediction prediction(const Cluster& cluster = {}, const Workload& workload = {}) const {
    return {plan_, spec_, weights_, cluster, workload};
  }
  RankShape shape(std::size_t rank, std::size_t ranks, Stage stage = {}) const {
    EnginePlan plan = plan_;
    plan.ranks = ranks;
    return shape_of_rank(spec_, plan, weights_, plan.tp(rank), stage);
  }

  EnginePlan plan_;
  ModelSpec spec_;
  SyntheticWeights weights_{DType::bf16};
};

TEST_F(PredictionTest, CountsTheSumsOfAStep) {
  // Two sums per block and one of the embedding, each of a hidden state in float32.
  const StepWork whole = shape(0, 2).work;
  EXPECT_EQ(whole.sums.sums, 2U * 8 + 1);
  EXPECT_EQ(whole.sums.bytes, (2U * 8 + 1) * 1024 * sizeof(float));
  const StepWork last = shape(0, 2, {1, 2}).work;
  EXPECT_EQ(last.sums.sums, 2U * 4);
  spec_.same_bits = true;  // the embedding's sum stays in floats
  EXPECT_EQ(shape(0, 2).work.sums.bytes, (2U * 8 * sizeof(double) + sizeof(float)) * 1024);
}

TEST_F(PredictionTest, CountsEveryWeightOnce) {
  const std::size_t vocabulary = 32000U * 1024;
  const StepWork one = shape(0, 1).work;
  EXPECT_EQ(one.head.elements, vocabulary);
  EXPECT_EQ(one.blocks.elements + 2 * vocabulary, count_parameters(spec_));
  std::size_t blocks = 0;
  std::size_t head = 0;
  for (std::size_t stage = 0; stage < 3; ++stage) {
    const StepWork work = shape(0, 1, {stage, 3}).work;
    blocks += work.blocks.elements;
    head += work.head.elements;
  }
  EXPECT_EQ(blocks, one.blocks.elements);
  EXPECT_EQ(head, one.head.elements);
}

TEST_F(PredictionTest, StagesShareTheLayersAndTheEmbeddingWhereItIsTied) {
  const auto weights = [&](Stage stage) { return shape(0, 1, stage).need.weights; };
  const std::uint64_t whole = weights({});
  EXPECT_EQ(weights({0, 2}) + weights({1, 2}), whole);
  const std::uint64_t cache = shape(0, 1).need.cache_block;
  EXPECT_EQ(shape(0, 1, {0, 4}).need.cache_block, cache / 4);
  spec_.tied_embeddings = true;
  const std::uint64_t table = 32000U * 1024 * 2;
  EXPECT_EQ(weights({}), whole - table);
  EXPECT_EQ(weights({0, 2}) + weights({1, 2}), whole) << "first and last stage have it";
}

CheckpointConfig indexed() {
  CheckpointConfig config = llama();
  config.architecture = "DeepseekV32ForCausalLM";
  config.num_key_value_heads = config.num_attention_heads;
  config.latent.q_lora_rank = 64;
  config.latent.kv_lora_rank = 32;
  config.latent.qk_nope_head_dim = config.latent.qk_rope_head_dim = config.latent.v_head_dim = 32;
  config.head_dim = config.latent.qk_rope_head_dim;  // as load_config sets it
  config.experts.first_k_dense_replace = config.num_hidden_layers;
  config.indexer.topk = 64;
  config.indexer.n_heads = 4;
  config.indexer.head_dim = 32;
  return config;
}

class IndexerPredictionTest : public PredictionTest {
 protected:
  IndexerPredictionTest() : PredictionTest(indexed()) {}

  // Returns the work of a step's indexers on the first of `ranks` ranks.
  AttentionShape scores(std::size_t ranks) const {
    const std::vector<AttentionShape> shapes = shape(0, ranks).attention;
    EXPECT_EQ(shapes.size(), 2U) << "attention and indexers";
    return shapes.back();
  }
};

TEST_F(IndexerPredictionTest, RanksOfAHostDivideTheScores) {
  EXPECT_DOUBLE_EQ(scores(1).multiplications, 4.0 * 32);
  EXPECT_DOUBLE_EQ(scores(1).bytes_per_position, 32.0 * 2);
  EXPECT_DOUBLE_EQ(scores(2).multiplications, 4.0 * 32) << "without a shared cache";
  plan_.ranks = 2;
  share_caches(plan_, {0, 0});
  EXPECT_DOUBLE_EQ(scores(2).multiplications, 2.0 * 32);
  EXPECT_DOUBLE_EQ(scores(2).bytes_per_position, 32.0);
}

TEST_F(IndexerPredictionTest, StagesPassOnChoicesThatLayersShare) {
  const auto bytes_of_step = [&](std::size_t context) {
    const Cluster cluster;
    EXPECT_FALSE(prediction(cluster).refusal({2, 1}));
    return prediction(cluster, {.context = context}).decode({2, 1}, 1).sums.transfer * cluster.rate;
  };
  EXPECT_DOUBLE_EQ(bytes_of_step(512), 1024.0 * sizeof(float));
  std::get<LatentAttentionSpec>(spec_.blocks[5].attention).indexer->is_shared = true;
  EXPECT_DOUBLE_EQ(bytes_of_step(512), (1024.0 + 64) * sizeof(float));
  EXPECT_DOUBLE_EQ(bytes_of_step(63), 1024.0 * sizeof(float)) << "all positions are chosen";
}

TEST_F(PredictionTest, RefusesStagesIfLayersReadKeysOfOtherLayers) {
  EXPECT_FALSE(prediction().refusal({2, 1}));
  std::get<AttentionSpec>(spec_.blocks[1].attention).shared_kv_layer = 0;
  const std::optional<std::string> refusal = prediction().refusal({2, 1});
  ASSERT_TRUE(refusal);
  EXPECT_NE(refusal->find("keys and values"), std::string::npos) << *refusal;
}

TEST_F(PredictionTest, KvHeadsThatSeveralRanksHoldCostTheirCopies) {
  EXPECT_DOUBLE_EQ(prediction().cache_copies({1, 4}), 1.0);
  EXPECT_DOUBLE_EQ(prediction().cache_copies({1, 8}), 2.0);
  EXPECT_DOUBLE_EQ(prediction().cache_copies({1, 16}), 4.0);
}

// 4 KV heads on hosts of 4 ranks: two hosts read the same two heads only if there are more than two hosts.
TEST_F(PredictionTest, KvHeadsThatSeveralRanksOfAHostReadAreOnEachHostOnce) {
  const Cluster cluster{.ranks_per_host = 4};
  EXPECT_DOUBLE_EQ(prediction(cluster).cache_copies({1, 8}), 1.0);
  EXPECT_DOUBLE_EQ(prediction(cluster).cache_copies({1, 16}), 1.0);
  EXPECT_DOUBLE_EQ(prediction({.ranks_per_host = 2}).cache_copies({1, 16}), 2.0);
  plan_.options.kv_slices = false;
  EXPECT_DOUBLE_EQ(prediction(cluster).cache_copies({1, 8}), 2.0);
}

// Layers with 8 KV heads and a window, and layers with 2 KV heads, which two of four ranks hold.
TEST_F(PredictionTest, OnlyLayersWithFewKvHeadsCostCopies) {
  for (std::size_t layer = 0; layer < spec_.blocks.size(); ++layer) {
    auto& attention = std::get<AttentionSpec>(spec_.blocks[layer].attention);
    attention.num_key_value_heads = layer % 2 == 0 ? 8 : 2;
    if (layer % 2 == 0) attention.pattern.window = 64;
  }
  EXPECT_DOUBLE_EQ(prediction().cache_copies({1, 2}), 1.0);
  EXPECT_DOUBLE_EQ(prediction().cache_copies({1, 4}), (8.0 + 4.0) / (8.0 + 2.0));
}

TEST_F(PredictionTest, FitsExactlyIfTheEngineWouldLoad) {
  Cluster cluster{.ranks_per_host = 2};
  const HostFit plenty = prediction(cluster).memory({1, 4});
  EXPECT_EQ(plenty.cache_tokens, 4U * 1024);
  cluster.memory = plenty.peak;
  EXPECT_EQ(prediction(cluster).memory({1, 4}).cache_tokens, 4U * 1024);
  cluster.memory = plenty.peak - 1;
  EXPECT_LT(prediction(cluster).memory({1, 4}).cache_tokens, 4U * 1024);
  cluster.memory = 100 << 20;
  const HostFit none = prediction(cluster).memory({1, 4});
  EXPECT_EQ(none.cache_tokens, 0U);
  EXPECT_CONTAINS(none.refusal, "cannot load the model: 2 ranks on host 0 would need");
}

TEST_F(PredictionTest, NamesTheFewestHosts) {
  Cluster cluster;
  cluster.memory = prediction().memory({1, 4}).peak;
  const std::size_t fewest = prediction(cluster).fewest_hosts(false).value();
  EXPECT_LE(fewest, 4U);
  EXPECT_GT(fewest, 1U);
  EXPECT_LT(prediction(cluster).memory({1, fewest - 1}).cache_tokens, 4U * 1024);
  cluster.memory = 1 << 20;
  EXPECT_FALSE(prediction(cluster).fewest_hosts(false));
  EXPECT_FALSE(prediction(cluster).fewest_hosts(true));
}

TEST_F(PredictionTest, RejectsIndivisiblePlans) {
  EXPECT_FALSE(prediction().refusal({1, 16}));
  EXPECT_NE(prediction().refusal({1, 17})->find("it has 16 attention heads"), std::string::npos);
  EXPECT_FALSE(prediction().refusal({8, 1}));
  EXPECT_EQ(*prediction().refusal({9, 1}), "9 stages, but the model has 8 layers");
}

TEST_F(PredictionTest, ATokenTakesTheReadingOfAllWeightsAndOfTheCache) {
  const Cluster cluster{.bandwidth = 1e9, .flops = 1e30};
  const RankShape one = shape(0, 1);
  const StepTime time = step_time(one, cluster, 1, {.tokens = 1, .context = 99, .outputs = 1});
  const double kv = 8 * 2 * 4 * 64 * 2.0 * 100;  // layers, keys and values, heads, elements, bytes, positions
  const auto weights = static_cast<double>(one.work.blocks.bytes + one.work.head.bytes);
  EXPECT_NEAR(time.memory, (weights + kv) / 1e9, 0.01 * time.memory);
  EXPECT_EQ(time.sums.total(), 0.0);
  // Eight sequences read the weights once, but eight caches.
  const StepTime eight =
      step_time(one, cluster, 1, {.tokens = 8, .sequences = 8, .context = 99, .outputs = 8});
  EXPECT_NEAR(eight.memory, (weights + 8 * kv) / 1e9, 0.01 * eight.memory);
}

// Compares the cache bytes that one token reads, per attention layer and position.
class ContextPredictionTest : public PredictionTest {
 protected:
  // The model's config.json has these `fields`.
  void set_model(const std::string& fields) {
    plan_.config = parse_config("{" + fields + R"(,
        "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000, "max_position_embeddings": 100000})",
                                "config.json");
    spec_ = make_spec(plan_.config);
  }
  double cache_bytes(std::size_t context) const {
    const Cluster cluster{.bandwidth = 1e9, .flops = 1e30};
    const RankShape one = shape(0, 1);
    const StepTime time = step_time(one, cluster, 1, {.tokens = 1, .context = context, .outputs = 1});
    const double experts = static_cast<double>(one.work.blocks.expert_bytes);
    const double routed = one.experts == 0 ? 0.0
                                           : experts * static_cast<double>(one.experts_per_token) /
                                                 static_cast<double>(one.experts);
    return 1e9 * time.memory -
           (static_cast<double>(one.work.blocks.bytes + one.work.head.bytes) - experts + routed);
  }

  static constexpr double kPosition = 2.0 * 2 * 64 * 2;  // keys and values, heads, elements, bytes
};

TEST_F(ContextPredictionTest, WindowLayersReadAtMostTheirWindow) {
  set_model(R"("architectures": ["MistralForCausalLM"], "sliding_window": 1000)");
  EXPECT_NEAR(cache_bytes(499), 4 * kPosition * 500, 2 * 4 * kPosition);
  EXPECT_NEAR(cache_bytes(50000), 4 * kPosition * 1000, 2 * 4 * kPosition);
}

TEST_F(ContextPredictionTest, LayersWithChunksReadTheirChunk) {
  set_model(
      R"("architectures": ["Llama4ForCausalLM"], "attention_chunk_size": 1000, "no_rope_layers": [1, 1, 1, 0],
               "num_local_experts": 2, "num_experts_per_tok": 1)");
  EXPECT_NEAR(cache_bytes(499), 4 * kPosition * 500, 2 * 4 * kPosition);
  EXPECT_NEAR(cache_bytes(50009), kPosition * (3 * 10 + 50010), 2 * 4 * kPosition);
  EXPECT_NEAR(cache_bytes(50999), kPosition * (3 * 1000 + 51000), 2 * 4 * kPosition);
}

TEST_F(ContextPredictionTest, RecurrentLayersReadTheirState) {
  set_model(
      R"("architectures": ["Qwen3NextForCausalLM"], "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
               "linear_key_head_dim": 64, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
               "linear_value_head_dim": 64, "moe_intermediate_size": 64, "num_experts": 4,
               "num_experts_per_tok": 1, "shared_expert_intermediate_size": 64)");
  // Three layers have, for each of four heads, a matrix, the last three tokens of 512 channels, and for up to
  // 15 tokens the keys of two heads and the decays and additions of four heads.
  const double states = 3 * 4.0 * (4 * 64 * 64 + 3 * 512 + 15 * (2 * 64 + 4 * 64) + 4 * 16);
  EXPECT_NEAR(cache_bytes(99), states + kPosition * 100, 0.01 * states);
  EXPECT_NEAR(cache_bytes(9999), states + kPosition * 10000, 0.01 * states);
}

TEST_F(PredictionTest, APromptTakesTwoOperationsPerWeightAndToken) {
  const Cluster cluster{.bandwidth = 1e30, .flops = 1e12};
  const RankShape one = shape(0, 1);
  const StepTime time = step_time(one, cluster, 1, {.tokens = 100, .outputs = 1});
  const auto blocks = static_cast<double>(one.work.blocks.elements);
  const double attention =
      8 * 16 * 2 * 64 * 50.5 * 100;  // layers, heads, keys and values, head_dim, mean seen
  const double products = 100 * blocks + static_cast<double>(one.work.head.elements) + attention;
  EXPECT_NEAR(time.arithmetic, 2 * products / 1e12, 1e-9);
}

TEST(AllReduceTime, IsTheFastestWaysTime) {
  const Cluster net{.latency = 1e-4, .rate = 1e8, .message = 1e-6};
  const auto seconds = [&](std::size_t ranks, double bytes) {
    return all_reduce_time(net, ranks, bytes, bytes).total();
  };
  EXPECT_EQ(seconds(1, 1e6), 0.0);
  // Two hosts exchange everything in one message each.
  EXPECT_NEAR(seconds(2, 1e4), 1e-4 + 1e-4, 1e-9);
  // Four hosts with a short message: each sends it to all others, with one latency.
  EXPECT_NEAR(seconds(4, 8), 1e-4 + 2e-6, 1e-6);
  // Four hosts with a long message: parts to all hosts and back.
  EXPECT_NEAR(seconds(4, 1e8), 1.5, 0.01);
  // Many hosts double their part in each round, if possible.
  EXPECT_NEAR(seconds(1024, 8), 10 * 1e-4, 1e-4);
  EXPECT_NEAR(seconds(1000, 8), 1e-4 + 998e-6, 1e-4);
  const Cluster two{.ranks_per_host = 2, .latency = 1e-4, .rate = 1e8};
  EXPECT_LT(all_reduce_time(two, 2, 1e4, 1e4).total(), 1e-5) << "within one host";
  EXPECT_GT(all_reduce_time(two, 4, 1e4, 1e4).total(), seconds(2, 1e4));
}

TEST_F(PredictionTest, RoundedSumsTakeLessOfTheWireAndNoLessOfTheRest) {
  const Cluster slow{.ranks_per_host = 2, .rate = 1.25e7};
  const StepTime f32 = prediction(slow).prefill({1, 4});
  plan_.options.wire = WireType::bf16;
  const StepTime bf16 = prediction(slow).prefill({1, 4});
  plan_.options.wire = WireType::int8;
  const StepTime int8 = prediction(slow).prefill({1, 4});
  EXPECT_NEAR(bf16.sums.transfer, f32.sums.transfer / 2, 0.02 * f32.sums.transfer);
  EXPECT_NEAR(int8.sums.transfer, f32.sums.transfer * 34 / 128, 0.02 * f32.sums.transfer);
  EXPECT_EQ(int8.compute(), f32.compute());
  EXPECT_EQ(int8.sums.latency, f32.sums.latency);
}

TEST_F(PredictionTest, ASlowNetworkMakesStagesFasterForBatchesOnly) {
  const Cluster slow{.bandwidth = 10e9, .flops = 1e12, .latency = 1e-4, .rate = 1.25e7};
  const Prediction predicted = prediction(slow);
  EXPECT_LT(predicted.decode({4, 1}, 16).total(), predicted.decode({1, 4}, 16).total());
  EXPECT_GT(predicted.decode({4, 1}, 1).total(), predicted.decode({1, 1}, 1).total())
      << "one token visits all stages";
  const Cluster fast{.bandwidth = 10e9, .flops = 1e12, .latency = 1e-6, .rate = 1e11};
  EXPECT_GT(prediction(fast).decode({4, 1}, 1).total(), prediction(fast).decode({1, 4}, 1).total());
}

TEST_F(PredictionTest, UnevenRanksThatShareByTheirSpeedAreFasterThanEvenShares) {
  const Cluster cluster{.bandwidth = 10e9, .latency = 1e-6, .rate = 1e11};
  const double even = prediction(cluster).decode(Division{1, 3}, 1).memory;
  plan_.options.split = {2, 1, 1};
  const double split = prediction(cluster).decode(Division{1, 3}, 1).memory;
  EXPECT_NEAR(split, even, 0.1 * even) << "the fast rank takes more, in the same time";
  EXPECT_DOUBLE_EQ(prediction(cluster).decode(Division{1, 4}, 1).memory, [&] {
    plan_.options.split.clear();
    return prediction(cluster).decode(Division{1, 4}, 1).memory;
  }());
}

class ExpertsPredictionTest : public PredictionTest {
 protected:
  ExpertsPredictionTest()
      : PredictionTest([] {
          CheckpointConfig config = llama();
          config.architecture = "MixtralForCausalLM";
          config.num_experts = 8;
          config.experts.num_experts_per_tok = 2;
          config.experts.moe_intermediate_size = 4096;
          return config;
        }()) {}
};

TEST_F(ExpertsPredictionTest, ATokenReadsOnlyItsExperts) {
  const RankShape one = shape(0, 1);
  const auto experts = static_cast<double>(one.work.blocks.expert_bytes);
  EXPECT_EQ(one.work.blocks.expert_elements, std::size_t{8} * 8 * 3 * 4096 * 1024);
  const Cluster cluster{.bandwidth = 1e9, .flops = 1e30};
  const auto read = [&](std::size_t tokens) {
    return 1e9 * step_time(one, cluster, 1, {.tokens = tokens, .sequences = tokens, .outputs = 1}).memory;
  };
  const auto all = static_cast<double>(one.work.blocks.bytes + one.work.head.bytes);
  EXPECT_NEAR(read(1), all - 0.75 * experts, 0.001 * all);
  EXPECT_NEAR(read(200), all, 0.01 * all);
}

Placement hosts_of(const std::vector<std::size_t>& ranks) {
  Placement placement;
  for (const std::size_t count : ranks) {
    placement.hosts.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      placement.hosts.back().push_back(placement.host_of.size());
      placement.host_of.push_back(placement.hosts.size() - 1);
    }
  }
  return placement;
}

TEST(MeasuredSplit, GivesFastHostsMore) {
  const std::vector<double> rates = {30, 10, 10};
  EXPECT_EQ(split_of(rates, hosts_of({1, 2})), rates);
}

TEST(MeasuredSplit, RanksOfOneHostShareItsRate) {
  const std::vector<double> rates = {25, 15, 10};
  EXPECT_EQ(split_of(rates, hosts_of({2, 1})), (std::vector<double>{20, 20, 10}));
}

TEST(MeasuredSplit, HostsThatDifferByLessThanATenthAreEqual) {
  const std::vector<double> near = {21, 20};
  EXPECT_TRUE(split_of(near, hosts_of({1, 1})).empty());
  const std::vector<double> far = {23, 20};
  EXPECT_EQ(split_of(far, hosts_of({1, 1})), far);
}

}  // namespace
}  // namespace tp
