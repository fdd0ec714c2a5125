// Adapters of other families' layers, next to the model and merged into it. PEFT adds B A to fused
// projections, transposed matrices, embeddings and heads, too.
#include "model/config/config.h"
#include "model/weights/adapters/merged_checkpoint.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/source/source_decorator.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/name_of_fixture.h"
#include "tp/error.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::ModelUnderTest;

constexpr std::size_t kLoraRank = 3;

AdapterMatrix random_factor(const std::string& name, MatrixShape shape) {
  const auto values = std::make_shared<const SyntheticWeights>(DType::f32, 5);
  return {name, DType::f32, shape, [values, name, shape](const TensorSlice& slice, TensorView<float> out) {
            values->read(name, shape, slice, out);
          }};
}

// Factors of a layer [out_features, in_features], or of an embedding [vocab_size, hidden_size].
AdapterLayer random_layer(const std::string& name, MatrixShape shape, bool is_embedding) {
  const std::size_t in = is_embedding ? shape.rows : shape.columns;
  const std::size_t out = is_embedding ? shape.columns : shape.rows;
  return {.a = random_factor(name + ".a", {kLoraRank, in}),
          .b = random_factor(name + ".b", {out, kLoraRank}),
          .scale = 0.25F,
          .is_embedding = is_embedding};
}

// All matrices of the language model, except those that no adapter can change, such as routers.
bool is_adapted(std::string_view name) {
  for (const std::string_view part :
       {"norm", "conv", "hyper_connection", "hc_", "mlp.gate.", "moe.gate.", "ffn.gate.",
        "shared_expert_gate", "wpe", "vision", "visual", "aligner", "mtp.", "shard_", "engram.embed"}) {
    if (name.find(part) != name.npos) return false;
  }
  return name.ends_with(".weight");
}

class AdaptedFamily : public testing::TestWithParam<const char*> {};

TEST_P(AdaptedFamily, GivesTheLogitsOfTheMergedModel) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture(GetParam());
  const CheckpointConfig config = load_config(fixture.folder);
  if (config.num_attention_heads < comm.size()) GTEST_SKIP() << comm.size() << " ranks";
  const ModelSpec spec = make_spec(config);
  const auto stored = SafetensorsCheckpoint::open(fixture.folder);
  const TensorNames names = spec.names.as_stored_in(*stored);
  const bool transposed = names.block(0).transposed;
  const std::string layer_after_all = "layers." + std::to_string(spec.blocks.size()) + ".";
  Adapter adapter{.name = "all", .place = "memory", .identity = "1"};
  for (const std::string& name : stored->names()) {
    const std::vector<std::size_t>& shape = stored->find_raw(name)->tensor.shape;
    const std::string layer = name.substr(0, name.rfind('.'));
    const bool is_table = layer == names.embed_tokens || layer == names.lm_head;
    if (shape.size() != 2 || !is_adapted(name) || name.find(layer_after_all) != name.npos) continue;
    if (is_table && spec.tied_embeddings) continue;
    MatrixShape logical{shape[0], shape[1]};
    if (transposed && !is_table) std::swap(logical.rows, logical.columns);
    adapter.layers[layer_key(layer)] = random_layer(layer, logical, layer == names.embed_tokens);
  }
  const MergedCheckpoint merged(open_checkpoint(fixture.folder), Adapters({adapter}), spec);
  const auto source = open_checkpoint(fixture.folder);
  source->use_adapters(std::make_shared<const Adapters>(std::vector<Adapter>{adapter}));
  ModelUnderTest beside(comm, config, *source, {.weights = WeightType::f32, .adapter = 1});
  ModelUnderTest whole(comm, config, merged, {.weights = WeightType::f32});
  const std::vector<float> found = beside.append(fixture.prompt);
  const std::vector<float> expected = whole.append(fixture.prompt);
  ModelUnderTest plain(comm, config, *open_checkpoint(fixture.folder), {.weights = WeightType::f32});
  const std::vector<float> without = plain.append(fixture.prompt);
  double difference = 0.0;
  double change = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference = std::max(difference, static_cast<double>(std::abs(found[i] - expected[i])));
    change = std::max(change, static_cast<double>(std::abs(without[i] - expected[i])));
  }
  EXPECT_LE(difference, 1e-3);
  EXPECT_GT(change, 0.1) << "the adapter must show";
}

INSTANTIATE_TEST_SUITE_P(Families, AdaptedFamily,
                         testing::Values("gpt2-6heads", "falcon-newarch-gqa", "phi3", "gptneox",
                                         "gemma3-multimodal-layout", "qwen3next", "falconh1",
                                         "deepseek3-yarn", "internlm2", "mixtral-4e", "qwen2-untied",
                                         "glm5next", "qwen4exp", "deepseekv4", "deepseekv41"),
                         reference::name_of_fixture);

// A tied model whose table also has the name of an LM head.
class UntiedCheckpoint final : public SourceDecorator {
 public:
  UntiedCheckpoint(std::unique_ptr<WeightSource> stored, std::string table, std::string head)
      : SourceDecorator(std::move(stored)), table_(std::move(table)), head_(std::move(head)) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> all = SourceDecorator::names();
    all.push_back(head_);
    std::ranges::sort(all);
    return all;
  }

 private:
  Place place_of(const std::string& name) const override { return {stored(), name == head_ ? table_ : name}; }

  std::string table_;
  std::string head_;
};

// An adapter of one table changes only this table.
TEST(TiedEmbeddings, AreAdaptedSeparately) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-mqa-tied");
  const CheckpointConfig config = load_config(fixture.folder);
  if (config.num_attention_heads < comm.size()) GTEST_SKIP() << comm.size() << " ranks";
  const ModelSpec spec = make_spec(config);
  ASSERT_TRUE(spec.tied_embeddings);
  ModelSpec untied = spec;
  untied.tied_embeddings = false;
  const TensorNames names = spec.names.as_stored_in(*open_checkpoint(fixture.folder));
  const MatrixShape table{spec.vocab_size, spec.hidden_size};
  for (const int which : {1, 2, 3}) {
    Adapter adapter{.name = "tables", .place = "memory", .identity = "1"};
    if ((which & 1) != 0)
      adapter.layers[layer_key(names.embed_tokens)] = random_layer(names.embed_tokens, table, true);
    if ((which & 2) != 0)
      adapter.layers[layer_key(names.lm_head)] = random_layer(names.lm_head, table, false);
    const MergedCheckpoint merged(
        std::make_unique<UntiedCheckpoint>(open_checkpoint(fixture.folder),
                                           tensor_names::weight_of(names.embed_tokens),
                                           tensor_names::weight_of(names.lm_head)),
        Adapters({adapter}), untied);
    EXPECT_THROW(MergedCheckpoint(open_checkpoint(fixture.folder), Adapters({adapter}), spec), ConfigError);
    const auto source = open_checkpoint(fixture.folder);
    source->use_adapters(std::make_shared<const Adapters>(std::vector<Adapter>{adapter}));
    ModelUnderTest beside(comm, spec, *source, {.weights = WeightType::f32, .adapter = 1});
    ModelUnderTest whole(comm, untied, merged, {.weights = WeightType::f32});
    const std::vector<float> found = beside.append(fixture.prompt);
    const std::vector<float> expected = whole.append(fixture.prompt);
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3) << which;
  }
}

}  // namespace
}  // namespace tp
