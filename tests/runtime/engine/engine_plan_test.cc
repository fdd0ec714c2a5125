#include "parallel/exchange/archive.h"
#include "runtime/setup/engine_plan_archive.h"
#include "runtime/setup/engine_setup.h"

#include <chrono>

#include <gtest/gtest.h>

namespace tp {
namespace {

// All options differ from their defaults, so the test notices an option that is not sent.
EnginePlan unusual_plan() {
  EnginePlan plan;
  plan.config =
      parse_config(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_attention_heads": 8,
    "num_hidden_layers": 2, "intermediate_size": 160, "vocab_size": 320})",
                   "a config");
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

// Each rank chooses its threads and its folder for packed weights itself.
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
