// The multi-token prediction layer of DeepSeek-V3, GLM-4.5, Hy3, Ling, Qwen3-Next and Qwen3.5. No fixture has
// its numbers, because the original modelling code omits it. Plain loops compute the layer's input. An
// ordinary model of the family with only the layer's block, whose token vectors are this input, gives the
// expected output.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/model/layers/computed_sequence.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/mpi_test.h"
#include "tp/error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::compute;
using test::NextTokenLayout;
using test::Results;
using test::Tensors;
using test::Values;

std::vector<double> normed(const float* x, const Values& gain, double offset, double eps) {
  const std::size_t size = gain.columns();
  double squares = 0.0;
  for (std::size_t i = 0; i < size; ++i) squares += static_cast<double>(x[i]) * x[i];
  std::vector<double> out;
  for (std::size_t i = 0; i < size; ++i)
    out.push_back(x[i] / std::sqrt(squares / static_cast<double>(size) + eps) * (gain.elements[i] + offset));
  return out;
}

// projection([norm(vector of the token); norm(state)])
std::vector<float> what_it_reads(const json& config, const Tensors& tensors, TokenId token,
                                 const float* state) {
  const NextTokenLayout layout = test::layout_of(config);
  const auto of = [&](const std::string& layer) -> const Values& { return tensors.at(layer + ".weight"); };
  const bool has_table = tensors.contains(layout.embed_tokens + ".weight");
  const Values& table = of(has_table ? layout.embed_tokens : layout.body + layout.table);
  const double eps = test::text_config(config)["rms_norm_eps"];
  const std::size_t size = table.columns();
  std::vector<double> both = normed(table.elements.data() + static_cast<std::size_t>(token) * size,
                                    of(layout.embedding_norm), layout.norm_offset, eps);
  const std::vector<double> behind = normed(state, of(layout.state_norm), layout.norm_offset, eps);
  both.insert(both.end(), behind.begin(), behind.end());
  std::vector<float> out;
  for (std::size_t row = 0; row < size; ++row) {
    double sum = 0.0;
    for (std::size_t i = 0; i < both.size(); ++i)
      sum += both[i] * of(layout.projection).elements[row * both.size() + i];
    out.push_back(static_cast<float>(sum));
  }
  return out;
}

// An ordinary model with the layer's block. Its token i has the vector rows[i].
std::pair<json, Tensors> model_of_layer(json config, const Tensors& tensors,
                                        const std::vector<std::vector<float>>& rows) {
  const NextTokenLayout layout = test::layout_of(config);
  Tensors alone;
  for (const auto& [name, values] : tensors) {
    const bool is_of_block = name.starts_with(layout.block + layout.attention) ||
                             name.starts_with(layout.block + "mlp.") ||
                             name.starts_with(layout.block + "input_layernorm.") ||
                             name.starts_with(layout.block + "post_attention_layernorm.");
    if (is_of_block) alone[layout.body + "layers.0." + name.substr(layout.block.size())] = values;
  }
  const std::string table_name = layout.body + layout.table + ".weight";
  Values table = tensors.at(table_name);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::ranges::copy(rows[i], table.elements.begin() + static_cast<std::ptrdiff_t>(i * table.columns()));
  alone[table_name] = table;
  alone[layout.body + "norm.weight"] = tensors.at(layout.final_norm + ".weight");
  const std::string own_head = layout.lm_head + ".weight";
  const std::string head = tensors.contains(layout.model_head) ? layout.model_head : table_name;
  alone[layout.model_head] = tensors.at(tensors.contains(own_head) ? own_head : head);
  json& text = test::text_config(config);
  text["num_hidden_layers"] = 1;
  text["num_nextn_predict_layers"] = 0;
  text["first_k_dense_replace"] = 0;
  text["full_attention_interval"] = 1;
  text["tie_word_embeddings"] = false;
  text.erase("layer_types");
  return {config, alone};
}

// A fixture's checkpoint with a layer of seeded weights. `change` may change its tensors before they are
// written.
struct WithLayer {
  explicit WithLayer(const reference::Fixture& fixture, bool own_tables = false,
                     const std::function<void(const json& config, Tensors& tensors)>& change = {})
      : config(test::config_in(fixture.folder)), tensors(test::tensors_of(fixture.folder)) {
    test::add_next_token_layer(config, tensors, own_tables);
    if (change) change(config, tensors);
    test::write_checkpoint(folder.path(), config, tensors);
    source = SafetensorsCheckpoint::open(folder.path());
    parsed = load_config(folder.path());
  }

  json config;
  Tensors tensors;
  test::TemporaryDirectory folder;
  decltype(SafetensorsCheckpoint::open({})) source;
  CheckpointConfig parsed;
};

TEST(NextTokenLayer, MatchesAModelMadeOfItsBlock) {
  ASSERT_GE(test::fixtures_of_families_with_layer().size(), 2U);
  for (const reference::Fixture& fixture : test::fixtures_of_families_with_layer()) {
    for (const bool own_tables : {true, false}) {
      SCOPED_TRACE(testing::Message() << fixture.name << (own_tables ? ", tables of its own" : ""));
      const WithLayer checkpoint(fixture, own_tables);
      const Results model =
          compute(test::world(), make_spec(checkpoint.parsed), *checkpoint.source, fixture.prompt, 128);
      const std::vector<TokenId> tokens(fixture.prompt.begin() + 1, fixture.prompt.end());
      std::vector<const float*> states;
      std::vector<std::vector<float>> rows;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        states.push_back(model.hidden[i].data());
        rows.push_back(what_it_reads(checkpoint.config, checkpoint.tensors, tokens[i], states.back()));
      }
      ModelSpec spec = make_next_token_spec(checkpoint.parsed);
      spec.same_bits = own_tables;  // addends are doubles
      const Results layer = compute(test::world(), spec, *checkpoint.source, tokens, 7, states);

      const auto [alone_config, alone_tensors] = model_of_layer(checkpoint.config, checkpoint.tensors, rows);
      const test::TemporaryDirectory alone_folder;
      test::write_checkpoint(alone_folder.path(), alone_config, alone_tensors);
      const auto alone_source = SafetensorsCheckpoint::open(alone_folder.path());
      std::vector<TokenId> ids(tokens.size());
      std::iota(ids.begin(), ids.end(), 0);
      const Results expected =
          compute(test::world(), make_spec(load_config(alone_folder.path())), *alone_source, ids, 128);

      ASSERT_EQ(layer.logits.size(), expected.logits.size());
      double largest = 0.0;
      for (std::size_t i = 0; i < layer.logits.size(); ++i)
        largest = std::max(largest, std::abs(static_cast<double>(layer.logits[i]) - expected.logits[i]));
      // Logits are about 1. They are float32 sums in a different order.
      EXPECT_LT(largest, 2e-5);
    }
  }
}

// The state has been dropped.
TEST(NextTokenLayer, ReadsZerosForAMissingState) {
  const reference::Fixture fixture = reference::fixture("deepseek3-yarn");
  const WithLayer checkpoint(fixture);
  const ModelSpec spec = make_next_token_spec(checkpoint.parsed);
  const std::vector<float> zeros(spec.hidden_size);
  const std::vector<TokenId> tokens(fixture.prompt.begin(), fixture.prompt.begin() + 5);
  const Results missing =
      compute(test::world(), spec, *checkpoint.source, tokens, 5, std::vector<const float*>(5, nullptr));
  const Results given =
      compute(test::world(), spec, *checkpoint.source, tokens, 5, std::vector<const float*>(5, zeros.data()));
  EXPECT_EQ(missing.logits, given.logits);
}

TEST(NextTokenLayer, IsListedAmongTheModelsUnusedTensors) {
  const WithLayer checkpoint(reference::fixture("qwen3next"));
  const Model decoder(make_spec(checkpoint.parsed), *checkpoint.source, {0, 1});
  ASSERT_EQ(decoder.unused_tensors().size(), 1U);
  EXPECT_CONTAINS(decoder.unused_tensors().front(), "mtp.");
}

TEST(NextTokenLayer, RejectsAndNamesAWrongShape) {
  const auto transpose = [](const json& config, Tensors& tensors) {
    Values& projection = tensors.at(test::layout_of(config).projection + ".weight");
    std::swap(projection.shape[0], projection.shape[1]);
  };
  const WithLayer checkpoint(reference::fixture("deepseek3-yarn"), false, transpose);
  const ModelSpec spec = make_next_token_spec(checkpoint.parsed);
  const std::string error = test::error_of<CheckpointError>([&] {
    Model(spec, *checkpoint.source, {0, 1}, std::nullopt);
  });
  EXPECT_CONTAINS(error, "eh_proj");
  EXPECT_CONTAINS(error, "[64, 128]");
}

TEST(NextTokenLayer, IsRefusedOfFamiliesWithoutOne) {
  const CheckpointConfig config = load_config(reference::fixture("llama-gqa").folder);
  const std::string error = test::error_of<ConfigError>([&] { make_next_token_spec(config); });
  EXPECT_CONTAINS(error, "expected a family whose checkpoints have a layer for it");
  for (const char* family : {"DeepseekV3ForCausalLM, ", "Glm4MoeForCausalLM, ", "Glm4MoeLiteForCausalLM, ",
                             "Qwen3NextForCausalLM"})
    EXPECT_CONTAINS(error, family);
  EXPECT_CONTAINS(error, "found LlamaForCausalLM");
}

}  // namespace
}  // namespace tp
