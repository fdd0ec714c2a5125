#include "parallel/archive.h"
#include "runtime/engine_setup.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

// No field has its default, so that one that does not travel is missed.
EnginePlan unusual_plan() {
  EnginePlan plan;
  plan.config = {.architecture = "LlamaForCausalLM",
                 .hidden_size = 1,
                 .intermediate_size = 2,
                 .num_hidden_layers = 3,
                 .num_attention_heads = 4,
                 .num_key_value_heads = 5,
                 .head_dim = 6,
                 .vocab_size = 7,
                 .max_position_embeddings = 8,
                 .rms_norm_eps = 0.25,
                 .rope_theta = 9.0,
                 .rope_scaling = {.kind = RopeScaling::Kind::yarn,
                                  .factor = 10.0,
                                  .low_freq_factor = 11.0,
                                  .high_freq_factor = 12.0,
                                  .original_max_position_embeddings = 13,
                                  .beta_fast = 14.0,
                                  .beta_slow = 15.0,
                                  .attention_factor = 16.0},
                 .attention_bias = true,
                 .mlp_bias = true,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu",
                 .torch_dtype = DType::bf16,
                 .eos_token_ids = {17, 18}};
  plan.model = "/models/llama";
  plan.synthetic = true;
  plan.weights = "int8";
  plan.kv_type = KvType::int8;
  plan.block_size = 19;
  plan.cache_blocks = 20;
  plan.prefill_chunk = 21;
  plan.max_sequences = 22;
  plan.max_length = 23;
  return plan;
}

TEST(EnginePlan, ReachesTheOtherRanksWithEveryField) {
  EnginePlan received;
  from_archive(to_archive(unusual_plan()), received);
  EXPECT_TRUE(received == unusual_plan());
}

}  // namespace
}  // namespace tp
