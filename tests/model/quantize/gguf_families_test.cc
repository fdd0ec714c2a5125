// Every family's GGUF files give the logits of its checkpoints.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/describing_vectors.h"
#include "model/quantize/model_tensors.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/quantize/changed_model.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/random.h"

#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using reference::Fixture;
using test::BlockTensors;
using test::ChangedModel;
using test::expect_same_logits;
using test::GgufBuilder;
using test::GgufConversion;
using test::le;
using test::ModelUnderTest;
using test::TemporaryDirectory;
using test::TensorValues;
using test::TestTensor;
using test::write_f32;

// Returns the logits of a model's prompt on this rank.
std::vector<float> logits_of(const CheckpointConfig& config, const WeightSource& source,
                             std::span<const TokenId> prompt) {
  ModelUnderTest decoder(test::world(), config, source, {.weights = WeightType::f32});
  return decoder.append(prompt);
}

std::vector<std::size_t> windows_of(const CheckpointConfig& config) {
  std::vector<std::size_t> windows;
  for (const BlockSpec& block : make_spec(config).blocks) {
    const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
    windows.push_back(attention == nullptr ? 0 : attention->pattern.window.value_or(0));
  }
  return windows;
}

TEST(GgufFamilies, GiveTheLogitsOfTheOriginalModellingCode) {
  Communicator& comm = test::world();
  std::vector<std::string> families = supported_architectures();
  std::erase_if(families, [](const std::string& name) { return family_of(name).gguf.architecture.empty(); });
  for (const Fixture& fixture : reference::fixtures_of(families)) {
    if (comm.size() > load_config(fixture.folder).num_attention_heads) continue;
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "model.gguf";
    try {
      write_f32(fixture.folder, file);
    } catch (const ConfigError&) {
      continue;  // GGUF can't express some configurations; quantize_model_test.cc lists them
    }
    const CheckpointConfig config = load_config(file);
    if (windows_of(config) != windows_of(load_config(fixture.folder))) continue;  // some files lack them
    const auto source = GgufCheckpoint::open(file);
    ModelUnderTest decoder(comm, config, *source, {.weights = WeightType::f32});
    EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows),
              std::max(1e-4, 4 * fixture.noise))
        << fixture.name;
  }
}

// Returns gains near 1, different for every head.
std::vector<float> gains(std::size_t size, std::size_t seed) {
  reference::Random random(seed);
  std::vector<float> values = random.numbers(size);
  for (float& value : values) value = 1.0F + value / 2;
  return values;
}

TEST(GgufFamilies, HaveCoheresNormsOfHeads) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  ChangedModel model("cohere", "use_qk_norm");
  const CheckpointConfig config = model.config();
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string attention = fmt::format("model.layers.{}.self_attn.", layer);
    model.add(attention + "q_norm.weight", {4, 16}, gains(64, layer));
    model.add(attention + "k_norm.weight", {2, 16}, gains(32, 10 + layer));
  }
  const TemporaryDirectory directory;
  model.write(directory);
  const auto checkpoint = SafetensorsCheckpoint::open(directory.path());
  const std::filesystem::path file = directory.path() / "written" / "model.gguf";
  std::filesystem::create_directory(file.parent_path());
  write_f32(directory.path(), file);
  const CheckpointConfig read = load_config(file);
  EXPECT_TRUE(read.use_qk_norm);
  expect_same_logits(logits_of(read, *GgufCheckpoint::open(file), model.prompt()),
                     logits_of(config, *checkpoint, model.prompt()));
}

// Converts a fixture's model with these tensors, and with queries, keys and values in one tensor.
GgufConversion with_fused_qkv(const Fixture& fixture, const std::string& architecture,
                              const BlockTensors& names) {
  GgufConversion to(fixture, architecture);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, names);
    const std::string attention = fmt::format("model.layers.{}.self_attn.", layer);
    for (const std::string kind : {"weight", "bias"}) {
      if (!to.contains(attention + "q_proj." + kind)) continue;
      TensorValues all = to.read(attention + "q_proj." + kind);
      for (const char* projection : {"k_proj.", "v_proj."}) {
        const TensorValues more = to.read(attention + projection + kind);
        all.shape.front() += more.shape.front();
        all.elements.insert(all.elements.end(), more.elements.begin(), more.elements.end());
      }
      to.write(fmt::format("blk.{}.attn_qkv.{}", layer, kind), all);
    }
  }
  return to;
}

// llama.cpp's converter writes ChatGLM's own checkpoints like this, because they have one tensor.
TEST(GgufFamilies, HaveChatGlmsQueriesKeysAndValuesInOneTensor) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  const Fixture fixture = reference::fixture("glm");
  test::expect_logits(with_fused_qkv(fixture, "chatglm",
                                     {{"attn_norm.weight", "input_layernorm.weight"},
                                      {"ffn_norm.weight", "post_attention_layernorm.weight"},
                                      {"attn_output.weight", "self_attn.o_proj.weight"},
                                      {"ffn_up.weight", "mlp.gate_up_proj.weight"},
                                      {"ffn_down.weight", "mlp.down_proj.weight"}}),
                      fixture);
}

// Files made from Phi-2's first checkpoint have one tensor.
TEST(GgufFamilies, HavePhi2sQueriesKeysAndValuesInOneTensor) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  const Fixture fixture = reference::fixture("phi2");
  GgufConversion to = with_fused_qkv(fixture, "phi2",
                                     {{"attn_norm.weight", "input_layernorm.weight"},
                                      {"attn_norm.bias", "input_layernorm.bias"},
                                      {"attn_output.weight", "self_attn.dense.weight"},
                                      {"attn_output.bias", "self_attn.dense.bias"},
                                      {"ffn_up.weight", "mlp.fc1.weight"},
                                      {"ffn_up.bias", "mlp.fc1.bias"},
                                      {"ffn_down.weight", "mlp.fc2.weight"},
                                      {"ffn_down.bias", "mlp.fc2.bias"}});
  to.copy("output_norm.weight", "model.final_layernorm.weight");
  to.copy("output_norm.bias", "model.final_layernorm.bias");
  to.copy("output.bias", "lm_head.bias");
  test::expect_logits(to, fixture);
}

// Converts a model with Llama's tensors and wiring to a file of the architecture llama, like llama.cpp's
// converter does for Llama.
GgufConversion as_llama(const Fixture& fixture) {
  BlockTensors names = test::kLlamaBlock;
  names["ffn_norm.weight"] = "post_attention_layernorm.weight";
  for (const std::string part : {"gate", "up", "down"})
    names["ffn_" + part + ".bias"] = "mlp." + part + "_proj.bias";
  GgufConversion to(fixture, "llama");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, names);
    interleave_query_key(to, layer);
  }
  return to;
}

// Qwen 2 is Llama with biases of queries, keys and values.
TEST(GgufFamilies, HaveBiasesOfLlamasQueriesKeysAndValues) {
  if (test::world().size() > 2) GTEST_SKIP() << "two heads of keys";
  const Fixture fixture = reference::fixture("qwen2-untied-bf16");
  test::expect_logits(as_llama(fixture), fixture);
}

TEST(GgufFamilies, HaveBiasesOfAllOfLlamasProjections) {
  if (test::world().size() > 2) GTEST_SKIP() << "two heads of keys";
  const Fixture fixture = reference::fixture("llama-headdim-bias");
  const GgufConversion file = as_llama(fixture);
  ASSERT_TRUE(file.config().attention_bias && file.config().mlp_bias);
  test::expect_logits(file, fixture);
}

TEST(GgufFamilies, RefuseTensorsOfABlockThatTheModelDoesNotUse) {
  const GgufConversion model = as_llama(reference::fixture("llama-gqa"));
  const std::vector<float> values(model.config().hidden_size, 0.5F);
  for (const char* name : {"attn_sub_norm.weight", "ffn_down.bias", "attn_norm.bias", "attn_q_norm.weight"}) {
    const TemporaryDirectory directory;
    GgufBuilder file = model.builder();
    file.tensor(fmt::format("blk.1.{}", name), {values.size()}, "F32", test::bytes_of(values));
    const std::filesystem::path path = directory.write("model.gguf", file.file());
    const auto source = GgufCheckpoint::open(path);
    if (!test::world().is_root()) continue;  // the first rank checks all tensors
    EXPECT_THROW(ModelUnderTest(test::world(), load_config(path), *source, {}), CheckpointError) << name;
  }
}

// llama.cpp's converter writes the gains of all heads in one tensor, and leaves everything else unchanged.
TEST(GgufFamilies, HaveStableLmsNormsOfHeadsInOneTensor) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  ChangedModel model("stablelm-qkvbias", "qk_layernorm");
  GgufConversion to(reference::fixture("stablelm-qkvbias"), "stablelm");
  to.copy("output_norm.bias", "model.norm.bias");
  for (std::size_t layer = 0; layer < 3; ++layer) {
    to.copy_block(layer, test::kLlamaBlock);
    to.copy_block(layer, {{"attn_norm.bias", "input_layernorm.bias"},
                          {"ffn_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_norm.bias", "post_attention_layernorm.bias"}});
    for (const char kind : {'q', 'k'}) {
      const std::vector<float> all = gains(64, 2 * layer + (kind == 'q' ? 0 : 1));
      to.write(fmt::format("blk.{}.attn_{}_norm.weight", layer, kind), {{4, 16}, all});
      for (std::size_t head = 0; head < 4; ++head) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(16 * head);
        model.add(fmt::format("model.layers.{}.self_attn.{}_layernorm.norms.{}.weight", layer, kind, head),
                  {1, 16}, {begin, begin + 16});
      }
    }
  }
  const TemporaryDirectory directory;
  model.write(directory);
  const auto checkpoint = SafetensorsCheckpoint::open(directory.path());
  const TemporaryDirectory converted;
  const std::filesystem::path path = converted.write("model.gguf", to.file());
  const std::filesystem::path written = converted.path() / "written.gguf";
  write_f32(directory.path(), written);
  const std::vector<float> expected = logits_of(model.config(), *checkpoint, model.prompt());
  for (const std::filesystem::path& one : {path, written})
    expect_same_logits(logits_of(load_config(one), *GgufCheckpoint::open(one), model.prompt()), expected);
}

// llama.cpp's converter writes lists with a number for every layer, whose keys do not begin with the
// architecture. A single number stands for all layers.
TEST(GgufFamilies, HaveApertusActivationsInTheirMetadata) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  const ChangedModel model("apertus");
  GgufConversion to(reference::fixture("apertus"), "apertus");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, test::kLlamaBlock);
    to.copy_block(layer, {{"attn_norm.weight", "attention_layernorm.weight"},
                          {"ffn_norm.weight", "feedforward_layernorm.weight"}});
  }
  for (const DescribingVector& factors : describing_vectors(make_spec(model.config())))
    to.write(factors.name, {{factors.values.size()}, factors.values});
  std::map<std::string, std::string> lists;
  for (const TestTensor& tensor : model.tensors()) {
    const std::string function = "act_fn.";
    if (const std::size_t place = tensor.name.find(function); place != std::string::npos)
      lists["xielu." + tensor.name.substr(place + function.size())] += tensor.data;
  }
  ASSERT_EQ(lists.size(), 4U);
  GgufBuilder file = to.builder();
  for (const auto& [key, numbers] : lists) {
    if (key == "xielu.eps")  // all layers have the same value
      file.value(key, GgufKind::f32, numbers.substr(0, sizeof(float)));
    else
      file.value(
          key, GgufKind::array,
          le(static_cast<std::uint32_t>(GgufKind::f32), std::uint64_t{numbers.size() / sizeof(float)}) +
              numbers);
  }
  const TemporaryDirectory directory;
  model.write(directory);
  const TemporaryDirectory converted;
  const std::filesystem::path path = converted.write("model.gguf", file.file());
  const std::filesystem::path written = converted.path() / "written.gguf";
  write_f32(directory.path(), written);
  const std::vector<float> expected =
      logits_of(model.config(), *SafetensorsCheckpoint::open(directory.path()), model.prompt());
  for (const std::filesystem::path& one : {path, written})
    expect_same_logits(logits_of(load_config(one), *GgufCheckpoint::open(one), model.prompt()), expected);
}

TEST(GgufFamilies, NeedTheNumbersOfApertusActivationsForEveryLayer) {
  const TemporaryDirectory directory;
  const auto error_of = [&](const GgufBuilder& file) -> std::string {
    return test::error_or_none<CheckpointError>([&] {
      const auto source = GgufCheckpoint::open(directory.write("model.gguf", file.file()));
      source->expect("model.layers.1.mlp.act_fn.beta", {1, 1}, "");
    });
  };
  const GgufBuilder file = GgufConversion(reference::fixture("apertus"), "apertus").builder();
  EXPECT_EQ(error_of(GgufBuilder(file).numbers("xielu.beta", GgufKind::f32, std::vector<float>{0.5F})),
            "model.gguf: there is no tensor blk.1.xielu.beta (the most similar one is blk.0.xielu.beta); the "
            "metadata and the tensors must be of the same model");
  EXPECT_EQ(error_of(GgufBuilder(file).numbers("xielu.beta", GgufKind::f64, std::vector<double>{0.5, 0.5})),
            "model.gguf: xielu.beta has numbers of the kind f64, expected f32; convert the model again");
  EXPECT_EQ(error_of(GgufBuilder(file).value("xielu.beta", GgufKind::f32, le(0.5F))), "no error");
}

}  // namespace
}  // namespace tp
