// Adapters of experts whose matrices are stacks: in the checkpoint (as transformers 5 holds them), or in a
// GGUF adapter. Adapters in PEFT's layout name each expert's layers.
#include "model/config/config.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::AdapterFixture;
using test::ModelUnderTest;

constexpr double kExpertTolerance = 1e-4;  // see decoder_fixtures_test

std::vector<float> stored_values(const SafetensorsCheckpoint& stored, const std::string& name) {
  const std::vector<std::size_t>& shape = stored.find_raw(name)->tensor.shape;
  const MatrixShape matrix{shape.size() == 2 ? shape[0] : 1, shape.back()};
  return test::read_whole(stored, name, matrix);
}

// A copy of a checkpoint with separate experts, whose experts are stacks: gate_up_proj [experts, 2 * size,
// hidden_size] and down_proj [experts, hidden_size, size].
void write_stacked(const std::filesystem::path& from, const test::TemporaryDirectory& to) {
  const CheckpointConfig config = load_config(from);
  const auto stored = SafetensorsCheckpoint::open(from);
  std::vector<test::TestTensor> tensors;
  for (const std::string& name : stored->names()) {
    const std::size_t experts = name.find(".mlp.experts.");
    if (experts == name.npos)
      tensors.push_back(
          {name, "F32", stored->find_raw(name)->tensor.shape, test::bytes_of(stored_values(*stored, name))});
  }
  const std::size_t size = config.experts.moe_intermediate_size;
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.mlp.experts.", layer);
    std::vector<float> gate_up;
    std::vector<float> down;
    for (std::size_t expert = 0; expert < config.num_experts; ++expert) {
      const auto append = [&](const char* part, std::vector<float>& stack) {
        const std::vector<float> own =
            stored_values(*stored, fmt::format("{}{}.{}.weight", prefix, expert, part));
        stack.insert(stack.end(), own.begin(), own.end());
      };
      append("gate_proj", gate_up);
      append("up_proj", gate_up);
      append("down_proj", down);
    }
    tensors.push_back({prefix + "gate_up_proj",
                       "F32",
                       {config.num_experts, 2 * size, config.hidden_size},
                       test::bytes_of(gate_up)});
    tensors.push_back(
        {prefix + "down_proj", "F32", {config.num_experts, config.hidden_size, size}, test::bytes_of(down)});
  }
  std::filesystem::copy(from / "config.json", to.path() / "config.json");
  to.write("model.safetensors", test::safetensors_file(tensors));
}

std::vector<float> logits_with(const std::filesystem::path& base, std::shared_ptr<const Adapters> adapters,
                               const AdapterFixture& fixture) {
  const auto source = open_checkpoint(base);
  source->use_adapters(std::move(adapters));
  ModelUnderTest decoder(test::world(), load_config(base), *source,
                         {.weights = WeightType::f32, .adapter = 1});
  return decoder.append(fixture.prompt);
}

TEST(StackedExperts, HaveTheAdaptersOfSeparateExperts) {
  const AdapterFixture fixture = reference::adapter_fixture("lora-qwen3moe");
  const test::TemporaryDirectory folder;
  write_stacked(fixture.base, folder);
  const CheckpointConfig config = load_config(folder.path());
  if (config.num_attention_heads < test::world().size()) GTEST_SKIP() << test::world().size() << " ranks";
  const std::vector<AdapterOptions> options = {{.name = "tuned", .path = fixture.folder / "adapter"}};
  const auto source = open_checkpoint(folder.path());
  source->use_adapters(std::make_shared<const Adapters>(options, make_spec(config), "qwen3moe"));
  ModelUnderTest decoder(test::world(), config, *source, {.weights = WeightType::f32, .adapter = 1});
  EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), kExpertTolerance);
}

// Writes the factors of all layers as llama.cpp's converter does: experts' factors are stacks, and alpha
// replaces use_rslora.
std::filesystem::path write_gguf(const Adapter& adapter, std::size_t layers, std::size_t experts,
                                 const test::TemporaryDirectory& to) {
  test::GgufBuilder file;
  file.text("general.type", "adapter").text("general.architecture", "qwen3moe");
  file.text("adapter.type", "lora");
  const AdapterLayer& any = adapter.layers.begin()->second;
  file.value("adapter.lora.alpha", GgufKind::f32, test::le(any.scale * static_cast<float>(any.rank())));
  const auto add = [&](const std::string& name, const std::vector<const AdapterMatrix*>& matrices) {
    const MatrixShape shape = matrices.front()->shape;
    std::vector<float> all;
    for (const AdapterMatrix* const matrix : matrices) {
      std::vector<float> values(shape.size());
      matrix->read(TensorSlice::whole(shape), {values.data(), shape.rows, shape.columns});
      all.insert(all.end(), values.begin(), values.end());
    }
    std::vector<std::uint64_t> extents = {shape.rows, shape.columns};
    if (matrices.size() > 1) extents.insert(extents.begin(), matrices.size());
    file.tensor(name, extents, "F32", test::bytes_of(all));
  };
  const auto add_layers = [&](const std::string& name, const std::vector<std::string>& modules) {
    std::vector<const AdapterMatrix*> a;
    std::vector<const AdapterMatrix*> b;
    for (const std::string& module : modules) {
      const AdapterLayer* const layer = adapter.find(module);
      ASSERT_NE(layer, nullptr) << module;
      a.push_back(&layer->a);
      b.push_back(&layer->b);
    }
    add(name + ".weight.lora_a", a);
    add(name + ".weight.lora_b", b);
  };
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string module = fmt::format("model.layers.{}.", layer);
    const std::string tensor = fmt::format("blk.{}.", layer);
    for (const auto& [from, into] :
         {std::pair{"q_proj", "attn_q"}, {"v_proj", "attn_v"}, {"o_proj", "attn_output"}})
      add_layers(tensor + into, {module + "self_attn." + from});
    for (const std::string part : {"gate", "up", "down"}) {
      std::vector<std::string> stack;
      for (std::size_t expert = 0; expert < experts; ++expert)
        stack.push_back(fmt::format("{}mlp.experts.{}.{}_proj", module, expert, part));
      add_layers(fmt::format("{}ffn_{}_exps", tensor, part), stack);
    }
  }
  return to.write("adapter.gguf", file.file());
}

TEST(GgufAdapter, HasStacksOfExperts) {
  const AdapterFixture fixture = reference::adapter_fixture("lora-qwen3moe");
  const CheckpointConfig config = load_config(fixture.base);
  if (config.num_attention_heads < test::world().size()) GTEST_SKIP() << test::world().size() << " ranks";
  const ModelSpec spec = make_spec(config);
  // GGUF files have no saved modules.
  Adapter peft = open_peft_adapter({.name = "tuned", .path = fixture.folder / "adapter"});
  peft.tensors.clear();
  const test::TemporaryDirectory folder;
  const auto file = write_gguf(peft, config.num_hidden_layers, config.num_experts, folder);
  const std::vector<float> expected =
      logits_with(fixture.base, std::make_shared<const Adapters>(std::vector<Adapter>{peft}), fixture);
  const std::vector<AdapterOptions> options = {{.name = "tuned", .path = file}};
  const std::vector<float> found =
      logits_with(fixture.base, std::make_shared<const Adapters>(options, spec, "qwen3moe"), fixture);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], kExpertTolerance) << i;
}

}  // namespace
}  // namespace tp
