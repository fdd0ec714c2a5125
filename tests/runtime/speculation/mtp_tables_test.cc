// The layer for multi-token prediction shares the model's embedding and LM head only if its own tables are
// equal.
#include "runtime/setup/plan_agreement.h"
#include "runtime/step/draft_model.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/speculation/next_token_models.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::Tensors;

// Runs a model with this checkpoint on rank 0. Returns its report on the MTP layer, and whether all draft
// tokens were correct.
std::pair<DraftInfo, bool> layer_of(const Tensors& tensors, DraftRanks ranks) {
  const test::TemporaryDirectory folder;
  test::write_checkpoint(folder.path(), test::small_glm(), tensors);
  EngineOptions options{.model = folder.path(), .weights = WeightType::f32, .speculation = test::mtp(ranks)};
  const EnginePlan plan = agree_on_plan(test::world(), options);
  const std::optional<DraftPlan> draft = agree_on_draft(test::world(), options, {}, plan);
  const MemoryNeed need = draft_need(test::world(), *draft, plan);
  std::pair<DraftInfo, bool> found;
  test::run_engine(test::world(), options, [&](Engine& engine) {
    engine.submit(test::greedy_request(test::prompt_of(7, 1), 60));
    EXPECT_EQ(test::run_all(engine).begin()->second.tokens.size(), 60U);
    const SpeculationCounts counts = engine.status().speculation;
    EXPECT_GT(counts.drafted_tokens(), 0U);
    found = {*engine.info().draft, counts.accepted_tokens() == counts.drafted_tokens()};
    EXPECT_EQ(need.weights, found.first.weight_bytes) << "what the memory check knows of it";
  });
  return found;
}

// DeepSeek-V3's and GLM-4.5's checkpoints contain copies of both tables.
TEST(Mtp, SharesTheModelsTablesIfItsOwnAreEqual) {
  const std::string embedding = "model.layers.1.embed_tokens.weight";
  const std::string head = "model.layers.1.shared_head.head.weight";
  const Tensors without = test::model_whose_layer_reads_states();
  Tensors copies = without;
  copies[embedding] = without.at("model.embed_tokens.weight");
  copies[head] = without.at("lm_head.weight");
  Tensors other_head = copies;
  std::vector<float>& rotated = other_head[head].elements;
  std::rotate(rotated.begin(), rotated.begin() + 7, rotated.end());
  Tensors others = other_head;
  others[embedding].elements.front() += 1.0F;
  Tensors other_last_row = copies;
  other_last_row[head].elements[other_last_row[head].elements.size() - test::kHidden] += 9.0F;
  const bool is_root = test::world().is_root();
  std::array<std::size_t, 3> bytes{};
  for (const Tensors& tensors : {without, copies}) {
    const auto [info, is_right] = layer_of(tensors, DraftRanks::all);
    bytes[0] = info.weight_bytes;
    EXPECT_EQ(info.uses_embedding, is_root);
    EXPECT_EQ(info.uses_head, is_root);
    EXPECT_EQ(is_right, is_root);
    // A draft model on the first rank needs the whole LM head, but with several ranks the model has only a
    // slice there.
    const auto [alone, is_right_alone] = layer_of(tensors, DraftRanks::first);
    EXPECT_EQ(alone.uses_head, test::world().size() == 1);
    EXPECT_EQ(is_right_alone, is_root);
  }
  const auto [one, one_is_right] = layer_of(other_head, DraftRanks::all);
  EXPECT_EQ(one.uses_embedding, is_root);
  EXPECT_FALSE(one.uses_head || one_is_right);
  bytes[1] = one.weight_bytes;
  const auto [none, none_is_right] = layer_of(others, DraftRanks::all);
  EXPECT_FALSE(none.uses_embedding || none.uses_head || none_is_right);
  bytes[2] = none.weight_bytes;
  EXPECT_EQ(bytes[0] < bytes[1], is_root);
  EXPECT_EQ(bytes[1] - bytes[0], bytes[2] - bytes[1]);
  // If a rank's rows differ, that rank keeps its own table, whether or not other ranks share theirs.
  const auto [last, last_is_right] = layer_of(other_last_row, DraftRanks::all);
  EXPECT_EQ(last.uses_head, is_root && test::world().size() > 1);
  EXPECT_FALSE(last_is_right);
}

}  // namespace
}  // namespace tp
