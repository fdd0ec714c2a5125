// Checkpoints as written by transformers 5: all experts in one tensor, and language models under the names of
// the larger model that contains them.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/model/layers/computed_sequence.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/mpi_test.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::Tensors;
using test::Values;

std::vector<float> logits_of(const nlohmann::json& config, const Tensors& tensors,
                             const std::vector<TokenId>& prompt) {
  const test::TemporaryDirectory folder;
  test::write_checkpoint(folder.path(), config, tensors);
  const auto source = SafetensorsCheckpoint::open(folder.path());
  return test::compute(test::world(), make_spec(load_config(folder.path())), *source, prompt, 16).logits;
}

void append(Values one, Values& stack) {
  if (stack.shape.empty()) stack.shape = {0, 0, one.columns()};
  stack.elements.insert(stack.elements.end(), one.elements.begin(), one.elements.end());
}

// Moves each block's experts to two tensors with names that end with `ending`.
Tensors with_stacks(const reference::Fixture& fixture, const std::string& ending) {
  const CheckpointConfig config = load_config(fixture.folder);
  const TensorNames names = make_spec(config).names;
  Tensors tensors = test::tensors_of(fixture.folder);
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const ExpertNames experts = names.names_of_block(fmt::format("model.layers.{}.", layer)).experts;
    if (!tensors.contains(experts.expert(0).gate_proj + ".weight")) continue;  // no experts in this layer
    Values gate_up;
    Values down;
    for (std::size_t index = 0; index < config.num_experts; ++index) {
      const GatedMlpNames one = experts.expert(index);
      append(tensors.extract(one.gate_proj + ".weight").mapped(), gate_up);
      append(tensors.extract(one.up_proj + ".weight").mapped(), gate_up);
      append(tensors.extract(one.down_proj + ".weight").mapped(), down);
    }
    gate_up.shape = {config.num_experts, 2 * config.experts.moe_intermediate_size, config.hidden_size};
    down.shape = {config.num_experts, config.hidden_size, config.experts.moe_intermediate_size};
    tensors[experts.experts + "gate_up_proj" + ending] = gate_up;
    tensors[experts.experts + "down_proj" + ending] = down;
  }
  return tensors;
}

TEST(NewerCheckpoints, HaveAllExpertsInOneTensor) {
  for (const char* const name : {"mixtral-4e", "qwen3moe", "glm4moelite", "minimaxm2"}) {
    const reference::Fixture fixture = reference::fixture(name);
    const nlohmann::json config = test::config_in(fixture.folder);
    const std::vector<float> expected = logits_of(config, test::tensors_of(fixture.folder), fixture.prompt);
    for (const char* const ending : {"", ".weight"}) {
      SCOPED_TRACE(testing::Message() << name << ending);
      EXPECT_EQ(logits_of(config, with_stacks(fixture, ending), fixture.prompt), expected);
    }
  }
}

// Mistral 3's names: as published, as written by transformers 5, and as a text model alone.
TEST(NewerCheckpoints, HaveLanguageModelsUnderThreeNames) {
  const reference::Fixture fixture = reference::fixture("mistral3-wrapper");
  const nlohmann::json config = test::config_in(fixture.folder);
  const Tensors published = test::tensors_of(fixture.folder);
  const std::vector<float> expected = logits_of(config, published, fixture.prompt);
  const auto renamed = [&](const std::string& body, const std::string& head) {
    const std::string part = "language_model.";
    Tensors tensors;
    for (const auto& [name, values] : published) {
      const std::string in_part = name.starts_with(part) ? name.substr(part.size()) : name;
      const bool is_body = in_part.starts_with("model.");
      tensors[is_body                       ? body + in_part.substr(6)
              : in_part == "lm_head.weight" ? head + in_part
                                            : name] = values;
    }
    return tensors;
  };
  ASSERT_EQ(renamed("language_model.model.", "language_model.").size(), published.size());
  EXPECT_EQ(logits_of(config, renamed("model.language_model.", ""), fixture.prompt), expected);
  EXPECT_EQ(logits_of(config, renamed("model.", ""), fixture.prompt), expected);
}

}  // namespace
}  // namespace tp
