// EngineOptions::kv_slices changes only where keys and values are stored, and which ranks attend to them.
#include "tests/mpi_test.h"
#include "tests/reference/random.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/engine/tiny_checkpoint.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::Continuations;
using test::greedy_request;
using test::run_engine;

// An indexer of pools in the first layer. Some pools begin in blocks of other ranks.
nlohmann::json pools() {
  return {{"index_topk", 198},
          {"index_n_heads", 2},
          {"index_head_dim", 8},
          {"index_kpool", 3},
          {"qk_rope_head_dim", 0},
          {"head_dim", 0},
          {"hc_mult", 2},
          {"layer_types", {"deepseek_sparse_attention", "linear_attention"}},
          {"linear_attn_config", {{"num_heads", 6}, {"head_dim", 8}, {"short_conv_kernel_size", 4}}}};
}

// An indexer of blocks in the second layer, and no experts.
nlohmann::json with_blocks(nlohmann::json config) {
  config.update({{"hidden_act", "swigluoai"},
                 {"rotary_dim", 4},
                 {"dense_intermediate_size", 48},
                 {"num_local_experts", 2},
                 {"num_experts_per_tok", 1},
                 {"moe_layer_freq", {0, 0}},
                 {"sparse_attention_config",
                  {{"sparse_num_index_heads", 1},
                   {"sparse_index_dim", 8},
                   {"sparse_block_size", 24},
                   {"sparse_topk_blocks", 9},
                   {"sparse_local_block", 1},
                   {"sparse_attention_freq", {0, 1}}}}});
  return config;
}

// All ranks read one KV head or latents, at all positions or at positions that an indexer chooses.
nlohmann::json config_of(const std::string& architecture) {
  nlohmann::json config = {{"architectures", {architecture}},
                           {"hidden_size", 32},
                           {"intermediate_size", 48},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 6},
                           {"num_key_value_heads", 1},
                           {"head_dim", 8},
                           {"vocab_size", 64},
                           {"max_position_embeddings", 16384},
                           {"torch_dtype", "float32"}};
  if (architecture == "LlamaForCausalLM") return config;
  if (architecture == "MiniMaxM3SparseForConditionalGeneration") return with_blocks(config);
  config.update({{"num_key_value_heads", 6},
                 {"q_lora_rank", 16},
                 {"kv_lora_rank", 16},
                 {"qk_nope_head_dim", 8},
                 {"qk_rope_head_dim", 8},
                 {"v_head_dim", 8},
                 {"first_k_dense_replace", 2}});
  if (architecture == "DeepseekV32ForCausalLM")
    config.update({{"index_topk", 200}, {"index_n_heads", 2}, {"index_head_dim", 8}});
  if (architecture == "Glm5NextForConditionalGeneration") config.update(pools());
  return config;
}

// Prompts with enough splits for all ranks, and shorter ones. They end in different steps.
std::vector<Request> requests_of(std::size_t ranks) {
  const std::size_t divided = ranks * 4 * 512;
  std::vector<Request> requests;
  reference::Random random(5);
  for (const std::size_t length :
       {divided + 100, std::size_t{700}, divided + 700, divided + 1, std::size_t{9}}) {
    std::vector<TokenId> prompt(length);
    for (TokenId& token : prompt) token = static_cast<TokenId>(random.integer(0, 63));
    Request& request = requests.emplace_back(greedy_request(std::move(prompt), 6));
    request.sampling.logprobs = 2;
  }
  return requests;
}

Continuations texts_of(const EngineOptions& options, const std::vector<Request>& requests) {
  Continuations texts;
  run_engine(test::world(), options, [&](Engine& engine) { texts = test::answers_to(engine, requests); });
  return texts;
}

void expect_same_with_slices(EngineOptions options) {
  const std::vector<Request> requests = requests_of(test::world().size());
  options.kv_slices = false;
  Continuations expected = texts_of(options, requests);
  options.kv_slices = true;
  const Continuations found = texts_of(options, requests);
  EXPECT_EQ(found.size(), test::world().is_root() ? requests.size() : 0);
  for (const auto& [id, text] : found) {
    EXPECT_EQ(text.tokens, expected[id].tokens);
    EXPECT_EQ(text.logprobs, expected[id].logprobs);
  }
}

class SharedCache : public testing::TestWithParam<const char*> {
 protected:
  SharedCache() {
    test::TinyCheckpoint::write_file(folder_.path() / "config.json", config_of(GetParam()).dump());
    options_ = {.model = folder_.path(),
                .synthetic = true,
                .weights = WeightType::f32,
                .kv_type = KvType::bf16,
                .two_batch_overlap = TwoBatchOverlap::off,
                .max_length = 12'000};
  }

  const test::TemporaryDirectory folder_;
  EngineOptions options_;
};

TEST_P(SharedCache, GivesTheBitsOfPrivateCaches) { expect_same_with_slices(options_); }

// While one half-batch's results are merged, the other half-batch's queries arrive.
TEST_P(SharedCache, GivesTheBitsOfPrivateCachesInHalfBatches) {
  options_.two_batch_overlap = TwoBatchOverlap::on;
  expect_same_with_slices(options_);
}

TEST_P(SharedCache, GivesTheBitsOfPrivateCachesOnUnequalRanks) {
  for (std::size_t rank = 0; rank < test::world().size(); ++rank)
    options_.split.push_back(rank == 0 ? 3.0 : 1.0);
  options_.same_bits = true;
  expect_same_with_slices(options_);
}

INSTANTIATE_TEST_SUITE_P(Of, SharedCache,
                         testing::Values("LlamaForCausalLM", "DeepseekV3ForCausalLM",
                                         "DeepseekV32ForCausalLM", "Glm5NextForConditionalGeneration",
                                         "MiniMaxM3SparseForConditionalGeneration"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tp
