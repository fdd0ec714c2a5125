// Every family's GGUF files give the logits of its checkpoints.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/model_tensors.h"
#include "model/quantize/quantize_model.h"
#include "model/weights/checkpoint/safetensors_checkpoint.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/checkpoint/checkpoint_files.h"
#include "tests/checkpoint/gguf_builder.h"
#include "tests/model/decoder_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/random.h"

#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using reference::Fixture;
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
    EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.logits.view()),
              std::max(1e-4, 4 * fixture.noise))
        << fixture.name;
  }
}

// A fixture whose heads of queries and keys get norms, with gains of their own, which no fixture has.
class NormedHeads {
 public:
  explicit NormedHeads(const std::string& name, const std::string& field) : fixture_(find(name)) {
    std::ifstream stream(fixture_.folder / "config.json");
    json_ = nlohmann::json::parse(stream);
    const auto source = SafetensorsCheckpoint::open(fixture_.folder);
    for (const ModelTensor& tensor : model_tensors(make_spec(load_config(fixture_.folder)), *source)) {
      std::vector<float> values(tensor.shape.size());
      source->read(tensor.name, tensor.shape, TensorSlice::whole(tensor.shape),
                   {values.data(), tensor.shape.rows, tensor.shape.columns});
      add(tensor.name, tensor.shape, values);
    }
    json_[field] = true;
  }

  static bool is_here(const std::string& name) {
    return reference::has_all_fixtures() ||
           std::filesystem::exists(std::filesystem::path(TP_TEST_DATA) / "logits" / name);
  }

  void add(const std::string& name, MatrixShape shape, const std::vector<float>& values) {
    std::vector<std::size_t> extents = {shape.columns};
    if (shape.rows > 1) extents.insert(extents.begin(), shape.rows);
    tensors_.push_back({name, "F32", extents, test::bytes_of(values)});
  }

  const std::vector<TestTensor>& tensors() const { return tensors_; }
  const std::vector<TokenId>& prompt() const { return fixture_.prompt; }
  ModelConfig config() const { return parse_config(json_.dump(), "config.json"); }
  void write(const TemporaryDirectory& directory) const {
    directory.write("config.json", json_.dump());
    directory.write("model.safetensors", test::safetensors_file(tensors_));
  }

 private:
  static Fixture find(const std::string& name) {
    for (Fixture& fixture : reference::fixtures_of(supported_architectures())) {
      if (fixture.name == name) return std::move(fixture);
    }
    throw std::logic_error("there is no fixture " + name);
  }

  Fixture fixture_;
  nlohmann::json json_;
  std::vector<TestTensor> tensors_;
};

// Gains near 1, of every head others.
std::vector<float> gains(std::size_t size, std::size_t seed) {
  reference::Random random(seed);
  std::vector<float> values = random.numbers(size);
  for (float& value : values) value = 1.0F + value / 2;
  return values;
}

TEST(GgufFamilies, HaveCoheresNormsOfHeads) {
  if (!NormedHeads::is_here("cohere")) GTEST_SKIP() << "not all fixtures are here";
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  NormedHeads model("cohere", "use_qk_norm");
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

// As llama.cpp's converter writes it: the gains of all heads in one tensor, everything else as it was.
TEST(GgufFamilies, HaveStableLmsNormsOfHeadsInOneTensor) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  NormedHeads model("stablelm-qkvbias", "qk_layernorm");
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
  const std::vector<std::pair<std::string, std::string>> names = {{"model.embed_tokens", "token_embd"},
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
  for (const TestTensor& tensor : model.tensors()) {
    std::string name = tensor.name;
    for (const auto& [from, to] : names) {
      if (const std::size_t place = name.find(from); place != name.npos) name.replace(place, from.size(), to);
    }
    file.tensor(name, {tensor.shape.begin(), tensor.shape.end()}, "F32", tensor.data);
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

}  // namespace
}  // namespace tp
