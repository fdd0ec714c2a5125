#include "parallel/exchange/archive.h"
#include "runtime/setup/engine_plan_archive.h"
#include "runtime/setup/engine_setup.h"

#include <chrono>

#include <gtest/gtest.h>

namespace tp {
namespace {

// No option has its default, so that the test notices an option that is not sent.
EnginePlan unusual_plan() {
  EnginePlan plan;
  CheckpointConfig& config = plan.config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 1;
  config.intermediate_size = 2;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 5;
  config.head_dim = 6;
  config.vocab_size = 7;
  config.max_position_embeddings = 8;
  config.rms_norm_eps = 0.25;
  config.layer_norm_eps = 0.125;
  config.rope_theta = 9.0;
  config.partial_rotary_factor = 0.5;
  config.rope_scaling = {.kind = RopeScaling::Kind::yarn,
                         .factor = 10.0,
                         .low_freq_factor = 11.0,
                         .high_freq_factor = 12.0,
                         .original_max_position_embeddings = 13,
                         .beta_fast = 14.0,
                         .beta_slow = 15.0,
                         .attention_factor = 16.0,
                         .score_factor = 16.125,
                         .short_factor = {16.25},
                         .long_factor = {16.5, 16.75}};
  config.attention_bias = true;
  config.mlp_bias = true;
  config.tie_word_embeddings = true;
  config.hidden_act = "gelu";
  config.torch_dtype = DType::bf16;
  config.eos_token_ids = {17, 18};
  config.sliding_window = 24;
  config.use_sliding_window = false;
  config.max_window_layers = 25;
  config.layer_types = {"full_attention"};
  config.query_pre_attn_scalar = 26.0;
  config.attn_logit_softcapping = 27.0;
  config.final_logit_softcapping = 28.0;
  config.scale_attn_weights = false;
  config.scale_attn_by_inverse_layer_idx = true;
  config.use_parallel_residual = false;
  config.alibi = true;
  config.parallel_attn = false;
  config.new_decoder_architecture = true;
  config.num_ln_in_parallel_attn = 29;
  config.num_experts = 30;
  config.num_experts_per_tok = 31;
  config.moe_intermediate_size = 32;
  config.shared_expert_intermediate_size = 33;
  config.n_shared_experts = 34;
  config.norm_topk_prob = true;
  config.routed_scaling_factor = 35.0;
  config.scoring_func = "sigmoid";
  config.topk_method = "noaux_tc";
  config.n_group = 36;
  config.topk_group = 37;
  config.decoder_sparse_step = 38;
  config.mlp_only_layers = {39};
  config.first_k_dense_replace = 40;
  config.moe_layer_freq = 41;
  config.num_nextn_predict_layers = 42;
  config.q_lora_rank = 43;
  config.kv_lora_rank = 44;
  config.qk_nope_head_dim = 45;
  config.qk_rope_head_dim = 46;
  config.v_head_dim = 47;
  config.rope_interleave = false;
  plan.options = {.model = "/models/llama",
                  .synthetic = true,
                  .weights = WeightType::int8,
                  .kv_type = KvType::int8,
                  .same_bits = true,
                  .wire = WireType::bf16,
                  .two_batch_overlap = TwoBatchOverlap::off,
                  .kv_slices = false,
                  .favor_features = 18,
                  .unmask_cache = UnmaskCache::dual,
                  .kv_store = "/store",
                  .kv_store_size = 32,
                  .kv_store_min = 33,
                  .prefill_chunk = 21,
                  .max_sequences = 22,
                  .max_length = 23,
                  .block_size = 19,
                  .cache_tokens = 24,
                  .split = {0.5, 1.5},
                  .measured_split = true,
                  .pipeline = 25,
                  .speculation = {.drafts = DraftKind::mtp,
                                  .tokens = 3,
                                  .always = true,
                                  .model = "/models/draft",
                                  .ranks = DraftRanks::all,
                                  .draft_history = 26},
                  .pretend_ranks = 27,
                  .step_time = std::chrono::duration<double, std::milli>(0.5),
                  .max_queue = 28,
                  .max_queue_tokens = 29};
  plan.cache_blocks = 20;
  plan.ranks = 30;
  plan.overlaps = true;
  plan.next_token = true;
  plan.host_of = {31, 32};
  plan.cache_owners = 33;
  plan.not_shared_because = "34";
  return plan;
}

TEST(EnginePlan, ReachesTheOtherRanksWithEveryField) {
  EnginePlan received;
  from_archive(to_archive(unusual_plan()), received);
  EXPECT_TRUE(received == unusual_plan());
}

// The threads of a rank and its folder for packed weights are its own choice.
TEST(EnginePlan, LeavesEveryRankItsOwnThreadsAndPackedCache) {
  EnginePlan sent = unusual_plan();
  sent.options.threads = 31;
  sent.options.packed_cache = "/cache";
  EnginePlan received;
  from_archive(to_archive(sent), received);
  EXPECT_TRUE(received == unusual_plan());
}

}  // namespace
}  // namespace tp
