// Every family's GGUF files give the logits of its checkpoints.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/hyperparameters.h"
#include "model/quantize/model_tensors.h"
#include "model/quantize/quantize_model.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/decoder_under_test.h"
#include "tests/model/quantize/changed_model.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/random.h"

#include <cmath>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using reference::Fixture;
using test::ChangedModel;
using test::DecoderUnderTest;
using test::GgufBuilder;
using test::le;
using test::TemporaryDirectory;
using test::TestTensor;

// The logits of a model's prompt on this rank.
std::vector<float> logits_of(const ModelConfig& config, const WeightSource& source,
                             std::span<const TokenId> prompt) {
  DecoderUnderTest decoder(test::world(), config, source, {.weights = WeightType::f32});
  return decoder.append(prompt);
}

void write_f32(const std::filesystem::path& model, const std::filesystem::path& output) {
  quantize_model({.model = model, .name = "model", .weights = "f32", .output = output},
                 [](std::uint64_t, std::uint64_t) {});
}

void expect_equal(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << i;
}

std::vector<std::size_t> windows_of(const ModelConfig& config) {
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
      continue;  // what such files cannot say; quantize_model_test.cc knows which these are
    }
    const ModelConfig config = load_config(file);
    if (windows_of(config) != windows_of(load_config(fixture.folder))) continue;  // some files lack them
    const auto source = GgufCheckpoint::open(file);
    DecoderUnderTest decoder(comm, config, *source, {.weights = WeightType::f32});
    EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows),
              std::max(1e-4, 4 * fixture.noise))
        << fixture.name;
  }
}

// Gains near 1, of every head others.
std::vector<float> gains(std::size_t size, std::size_t seed) {
  reference::Random random(seed);
  std::vector<float> values = random.numbers(size);
  for (float& value : values) value = 1.0F + value / 2;
  return values;
}

TEST(GgufFamilies, HaveCoheresNormsOfHeads) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  ChangedModel model("cohere", "use_qk_norm");
  const ModelConfig config = model.config();
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
  const ModelConfig read = load_config(file);
  EXPECT_TRUE(read.use_qk_norm);
  expect_equal(logits_of(read, *GgufCheckpoint::open(file), model.prompt()),
               logits_of(config, *checkpoint, model.prompt()));
}

using Renaming = std::vector<std::pair<std::string, std::string>>;

std::string renamed(std::string name, const Renaming& renaming) {
  for (const auto& [from, to] : renaming) {
    if (const std::size_t place = name.find(from); place != name.npos) name.replace(place, from.size(), to);
  }
  return name;
}

// The sizes of a model's config.json, as metadata.
GgufBuilder sizes_of(const ModelConfig& config, const std::string& architecture) {
  GgufBuilder file;
  file.text("general.architecture", architecture);
  for (const auto& [key, number] : {std::pair{"context_length", config.max_position_embeddings},
                                    {"embedding_length", config.hidden_size},
                                    {"block_count", config.num_hidden_layers},
                                    {"feed_forward_length", config.intermediate_size},
                                    {"rope.dimension_count", rotary_dim(config)},
                                    {"attention.head_count", config.num_attention_heads},
                                    {"attention.head_count_kv", config.num_key_value_heads}})
    file.whole(fmt::format("{}.{}", architecture, key), static_cast<std::uint32_t>(number));
  const auto number = [&](const char* key, double value) {
    file.value(fmt::format("{}.{}", architecture, key), GgufKind::f32, le(static_cast<float>(value)));
  };
  number("attention.layer_norm_epsilon", config.layer_norm_eps);
  number("attention.layer_norm_rms_epsilon", config.rms_norm_eps);
  number("rope.freq_base", config.rope_theta);
  return file;
}

// The model with its queries, keys and values in one tensor, the queries first.
std::string with_fused_qkv(const ChangedModel& model, const std::string& architecture,
                           const Renaming& renaming) {
  GgufBuilder file = sizes_of(model.config(), architecture);
  std::map<std::string, std::map<char, const TestTensor*>> parts;
  for (const TestTensor& tensor : model.tensors()) {
    const std::string name = renamed(tensor.name, renaming);
    const std::size_t place = name.find("self_attn.");
    if (place == name.npos)
      file.tensor(name, {tensor.shape.begin(), tensor.shape.end()}, "F32", tensor.data);
    else
      parts[renamed(name, {{name.substr(place, std::string("self_attn.q_proj").size()), "attn_qkv"}})]
           [name.at(place + std::string("self_attn.").size())] = &tensor;
  }
  for (const auto& [name, qkv] : parts) {
    std::vector<std::uint64_t> shape(qkv.at('q')->shape.begin(), qkv.at('q')->shape.end());
    shape.front() += 2 * qkv.at('k')->shape.front();
    file.tensor(name, shape, "F32", qkv.at('q')->data + qkv.at('k')->data + qkv.at('v')->data);
  }
  return file.file();
}

void expect_same_with_fused_qkv(const std::string& fixture, const std::string& architecture,
                                const Renaming& renaming) {
  const ChangedModel model(fixture);
  const TemporaryDirectory directory;
  model.write(directory);
  const TemporaryDirectory converted;
  const std::filesystem::path path =
      converted.write("model.gguf", with_fused_qkv(model, architecture, renaming));
  const ModelConfig config = load_config(path);
  EXPECT_EQ(config.architecture, model.config().architecture);
  expect_equal(logits_of(config, *GgufCheckpoint::open(path), model.prompt()),
               logits_of(model.config(), *SafetensorsCheckpoint::open(directory.path()), model.prompt()));
}

// As llama.cpp's converter writes ChatGLM's own checkpoints, which have it so.
TEST(GgufFamilies, HaveChatGlmsQueriesKeysAndValuesInOneTensor) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  expect_same_with_fused_qkv("glm", "chatglm",
                             {{"model.embed_tokens", "token_embd"},
                              {"model.norm", "output_norm"},
                              {"lm_head", "output"},
                              {"model.layers.", "blk."},
                              {"input_layernorm", "attn_norm"},
                              {"post_attention_layernorm", "ffn_norm"},
                              {"self_attn.o_proj", "attn_output"},
                              {"mlp.gate_up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"}});
}

// As files that were made of Phi-2's first checkpoint have it.
TEST(GgufFamilies, HavePhi2sQueriesKeysAndValuesInOneTensor) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  expect_same_with_fused_qkv("phi2", "phi2",
                             {{"model.embed_tokens", "token_embd"},
                              {"model.final_layernorm", "output_norm"},
                              {"lm_head", "output"},
                              {"model.layers.", "blk."},
                              {"input_layernorm", "attn_norm"},
                              {"self_attn.dense", "attn_output"},
                              {"mlp.fc1", "ffn_up"},
                              {"mlp.fc2", "ffn_down"}});
}

// As llama.cpp's converter writes Llama: the halves of each head of queries and keys interleaved.
std::string interleaved(const TestTensor& tensor, std::size_t head_dim) {
  const std::size_t row_bytes = tensor.data.size() / tensor.shape.front();
  std::string data;
  for (std::size_t row = 0; row < tensor.shape.front(); ++row) {
    const std::size_t in_head = row % head_dim;
    const std::size_t from = row - in_head + in_head % 2 * head_dim / 2 + in_head / 2;
    data += tensor.data.substr(from * row_bytes, row_bytes);
  }
  return data;
}

const Renaming kLlamaNames = {{"model.embed_tokens", "token_embd"},
                              {"model.norm", "output_norm"},
                              {"lm_head", "output"},
                              {"model.layers.", "blk."},
                              {"input_layernorm", "attn_norm"},
                              {"post_attention_layernorm", "ffn_norm"},
                              {"self_attn.q_proj", "attn_q"},
                              {"self_attn.k_proj", "attn_k"},
                              {"self_attn.v_proj", "attn_v"},
                              {"self_attn.o_proj", "attn_output"},
                              {"mlp.gate_proj", "ffn_gate"},
                              {"mlp.up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"}};

// A model with Llama's tensors and wiring as a file of the architecture llama.
GgufBuilder as_llama(const ChangedModel& model) {
  const ModelConfig config = model.config();
  GgufBuilder file = sizes_of(config, "llama");
  file.whole("llama.attention.key_length", static_cast<std::uint32_t>(config.head_dim));
  for (const TestTensor& tensor : model.tensors()) {
    const std::string name = renamed(tensor.name, kLlamaNames);
    const bool rotates = name.find("attn_q.") != name.npos || name.find("attn_k.") != name.npos;
    file.tensor(name, {tensor.shape.begin(), tensor.shape.end()}, "F32",
                rotates ? interleaved(tensor, config.head_dim) : tensor.data);
  }
  return file;
}

void expect_same_as_llama(const ChangedModel& model) {
  const TemporaryDirectory directory;
  model.write(directory);
  const TemporaryDirectory converted;
  const std::filesystem::path path = converted.write("model.gguf", as_llama(model).file());
  expect_equal(logits_of(load_config(path), *GgufCheckpoint::open(path), model.prompt()),
               logits_of(model.config(), *SafetensorsCheckpoint::open(directory.path()), model.prompt()));
}

// Qwen 2 is Llama with biases of queries, keys and values.
TEST(GgufFamilies, HaveBiasesOfLlamasQueriesKeysAndValues) {
  if (test::world().size() > 2) GTEST_SKIP() << "two heads of keys";
  expect_same_as_llama(ChangedModel("qwen2-untied-bf16"));
}

TEST(GgufFamilies, HaveBiasesOfAllOfLlamasProjections) {
  if (test::world().size() > 2) GTEST_SKIP() << "two heads of keys";
  const ChangedModel model("llama-headdim-bias");
  ASSERT_TRUE(model.config().attention_bias && model.config().mlp_bias);
  expect_same_as_llama(model);
}

TEST(GgufFamilies, RefuseTensorsOfABlockThatTheModelDoesNotUse) {
  const ChangedModel model("llama-gqa");
  const ModelConfig config = model.config();
  const std::vector<float> values(config.hidden_size, 0.5F);
  for (const char* name : {"attn_sub_norm.weight", "ffn_down.bias", "attn_norm.bias", "attn_q_norm.weight"}) {
    const TemporaryDirectory directory;
    GgufBuilder file = as_llama(model);
    file.tensor(fmt::format("blk.1.{}", name), {values.size()}, "F32", test::bytes_of(values));
    const std::filesystem::path path = directory.write("model.gguf", file.file());
    const auto source = GgufCheckpoint::open(path);
    if (!test::world().is_root()) continue;  // the first rank looks for all
    EXPECT_THROW(DecoderUnderTest(test::world(), load_config(path), *source, {}), CheckpointError) << name;
  }
}

// As llama.cpp's converter writes it: the gains of all heads in one tensor, everything else as it was.
TEST(GgufFamilies, HaveStableLmsNormsOfHeadsInOneTensor) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  ChangedModel model("stablelm-qkvbias", "qk_layernorm");
  GgufBuilder file;
  file.text("general.architecture", "stablelm");
  for (const auto& [key, number] : {std::pair{"context_length", 256U},
                                    {"embedding_length", 64U},
                                    {"block_count", 3U},
                                    {"feed_forward_length", 112U},
                                    {"rope.dimension_count", 8U},
                                    {"attention.head_count", 4U},
                                    {"attention.head_count_kv", 4U}})
    file.whole(fmt::format("stablelm.{}", key), number);
  file.value("stablelm.attention.layer_norm_epsilon", GgufKind::f32, le(1e-5F));
  file.value("stablelm.rope.freq_base", GgufKind::f32, le(10000.0F));
  for (const TestTensor& tensor : model.tensors()) {
    file.tensor(renamed(tensor.name, kLlamaNames), {tensor.shape.begin(), tensor.shape.end()}, "F32",
                tensor.data);
  }
  for (std::size_t layer = 0; layer < 3; ++layer) {
    for (const char kind : {'q', 'k'}) {
      const std::vector<float> all = gains(64, 2 * layer + (kind == 'q' ? 0 : 1));
      file.tensor(fmt::format("blk.{}.attn_{}_norm.weight", layer, kind), {4, 16}, "F32",
                  test::bytes_of(all));
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
  const std::filesystem::path path = converted.write("model.gguf", file.file());
  const std::filesystem::path written = converted.path() / "written.gguf";
  write_f32(directory.path(), written);
  const std::vector<float> expected = logits_of(model.config(), *checkpoint, model.prompt());
  for (const std::filesystem::path& one : {path, written})
    expect_equal(logits_of(load_config(one), *GgufCheckpoint::open(one), model.prompt()), expected);
}

// As llama.cpp's converter writes them: lists with a number for every layer, whose keys do not begin with the
// architecture. A single number stands for all layers.
TEST(GgufFamilies, HaveApertusActivationsInTheirMetadata) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  const ChangedModel model("apertus");
  GgufBuilder file = sizes_of(model.config(), "apertus");
  const Renaming names = {{"model.embed_tokens", "token_embd"},
                          {"model.norm", "output_norm"},
                          {"lm_head", "output"},
                          {"model.layers.", "blk."},
                          {"attention_layernorm", "attn_norm"},
                          {"feedforward_layernorm", "ffn_norm"},
                          {"self_attn.q_proj", "attn_q"},
                          {"self_attn.k_proj", "attn_k"},
                          {"self_attn.v_proj", "attn_v"},
                          {"self_attn.o_proj", "attn_output"},
                          {"self_attn.q_norm", "attn_q_norm"},
                          {"self_attn.k_norm", "attn_k_norm"},
                          {"mlp.up_proj", "ffn_up"},
                          {"mlp.down_proj", "ffn_down"}};
  std::map<std::string, std::string> lists;
  for (const TestTensor& tensor : model.tensors()) {
    const std::string function = "act_fn.";
    if (const std::size_t place = tensor.name.find(function); place != std::string::npos)
      lists["xielu." + tensor.name.substr(place + function.size())] += tensor.data;
    else
      file.tensor(renamed(tensor.name, names), {tensor.shape.begin(), tensor.shape.end()}, "F32",
                  tensor.data);
  }
  ASSERT_EQ(lists.size(), 4U);
  for (const DescribingVector& factors : describing_vectors(make_spec(model.config())))
    file.tensor(factors.name, {factors.values.size()}, "F32", test::bytes_of(factors.values));
  for (const auto& [key, numbers] : lists) {
    if (key == "xielu.eps")  // the same in all layers
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
    expect_equal(logits_of(load_config(one), *GgufCheckpoint::open(one), model.prompt()), expected);
}

TEST(GgufFamilies, NeedTheNumbersOfApertusActivationsForEveryLayer) {
  const ChangedModel model("apertus");
  const TemporaryDirectory directory;
  const auto error_of = [&](const GgufBuilder& file) -> std::string {
    try {
      const auto source = GgufCheckpoint::open(directory.write("model.gguf", file.file()));
      source->expect("model.layers.1.mlp.act_fn.beta", {1, 1}, "");
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "no error";
  };
  GgufBuilder file = sizes_of(model.config(), "apertus");
  EXPECT_EQ(error_of(GgufBuilder(file).numbers("xielu.beta", GgufKind::f32, std::vector<float>{0.5F})),
            "model.gguf: there is no tensor blk.1.xielu.beta (the most similar one is blk.0.xielu.beta); the "
            "metadata and the tensors must be of the same model");
  EXPECT_EQ(error_of(GgufBuilder(file).numbers("xielu.beta", GgufKind::f64, std::vector<double>{0.5, 0.5})),
            "model.gguf: xielu.beta has numbers of the kind f64, expected f32; convert the model again");
  EXPECT_EQ(error_of(GgufBuilder(file).value("xielu.beta", GgufKind::f32, le(0.5F))), "no error");
}

}  // namespace
}  // namespace tp
