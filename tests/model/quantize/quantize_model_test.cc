#include "model/quantize/quantize_model.h"

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/files/json_node.h"
#include "model/quantize/model_tensors.h"
#include "model/quantize/type_choice.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/model/weights/mixed_gguf.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/reference/fixture.h"
#include "tests/reference/gguf.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using test::TemporaryDirectory;

QuantizeReport quantize(const std::filesystem::path& model, const std::string& weights,
                        const std::filesystem::path& output) {
  return quantize_model({.model = model, .name = "model", .weights = weights, .output = output},
                        [](std::uint64_t, std::uint64_t) {});
}

std::vector<float> elements_of(const WeightSource& source, const ModelTensor& tensor) {
  return test::read_whole(source, tensor.name, tensor.shape);
}

// Returns a stack of transposed matrices with gates left of ups: [experts * in, 2 out], or [experts * in,
// out].
std::vector<float> elements_of_transposed(const WeightSource& source, const ExpertNames& names,
                                          const ModelTensor& stack, std::size_t experts) {
  const bool is_down = stack.name.starts_with(names.all_experts().down_proj);
  const std::size_t in = stack.shape.rows / experts;
  const std::size_t out = stack.shape.columns / (is_down ? 1 : 2);
  std::vector<float> elements;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    const GatedMlpNames one = names.expert(expert);
    std::vector<float> both;  // [2 out, in], or [out, in]
    for (const std::string& layer :
         is_down ? std::vector{one.down_proj} : std::vector{one.gate_proj, one.up_proj}) {
      const std::vector<float> part = elements_of(source, {layer + ".weight", {out, in}});
      both.insert(both.end(), part.begin(), part.end());
    }
    for (std::size_t row = 0; row < in; ++row) {
      for (std::size_t column = 0; column < stack.shape.columns; ++column)
        elements.push_back(both[column * in + row]);
    }
  }
  return elements;
}

// Returns a stack of experts with gates above ups, from matrices that the file stores separately.
std::vector<float> elements_of_experts(const WeightSource& source, const ExpertNames& names,
                                       const ModelTensor& stack, std::size_t experts) {
  if (names.stacks.transposed) return elements_of_transposed(source, names, stack, experts);
  const bool is_down = stack.name.starts_with(names.all_experts().down_proj);
  const std::size_t rows = stack.shape.rows / experts / (is_down ? 1 : 2);
  std::vector<float> elements;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    const GatedMlpNames one = names.expert(expert);
    for (const std::string& layer :
         is_down ? std::vector{one.down_proj} : std::vector{one.gate_proj, one.up_proj}) {
      const std::vector<float> part = elements_of(source, {layer + ".weight", {rows, stack.shape.columns}});
      elements.insert(elements.end(), part.begin(), part.end());
    }
  }
  return elements;
}

std::vector<std::string> written_families() {
  std::vector<std::string> families = supported_architectures();
  std::erase_if(families, [](const std::string& name) {
    const GgufFamily& gguf = family_of(name).gguf;
    return gguf.architecture.empty() || gguf.read_only;
  });
  return families;
}

// Returns a checkpoint's tensor name as the file's reader knows it. Checkpoints may have other prefixes.
std::string name_in_file(const TensorNames& names, const WeightSource& checkpoint, const std::string& name) {
  const std::string body = names.as_stored_in(checkpoint).body;
  if (name.starts_with(body)) return names.prefix + name.substr(body.size());
  return name.starts_with(names.part_prefix) ? name.substr(names.part_prefix.size()) : name;
}

// Returns the rows of queries, keys and values of each KV head. The file has three tensors for them.
std::vector<float> elements_by_kv_head(const WeightSource& written, const CheckpointConfig& config,
                                       const BlockNames& block, const ModelTensor& whole) {
  const bool is_bias = whole.name.ends_with(".bias");
  const std::size_t columns = is_bias ? 1 : whole.shape.columns;
  const std::size_t groups = config.num_key_value_heads;
  std::vector<float> elements;
  for (std::size_t group = 0; group < groups; ++group) {
    for (const std::string& layer : {block.q_proj, block.k_proj, block.v_proj}) {
      const std::size_t heads = layer == block.q_proj ? config.num_attention_heads : groups;
      const std::size_t rows = heads * config.head_dim;
      const MatrixShape shape = is_bias ? MatrixShape{1, rows} : MatrixShape{rows, columns};
      const std::vector<float> all = elements_of(written, {layer + (is_bias ? ".bias" : ".weight"), shape});
      const auto size = static_cast<std::ptrdiff_t>(all.size() / groups);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(group) * size;
      elements.insert(elements.end(), first, first + size);
    }
  }
  return elements;
}

// Returns a matrix whose first `upper` rows are one layer, and whose other rows are another.
std::vector<float> elements_of_two(const WeightSource& written, MatrixShape shape, std::size_t upper,
                                   const std::string& first, const std::string& second) {
  std::vector<float> elements = elements_of(written, {first + ".weight", {upper, shape.columns}});
  const std::vector<float> lower =
      elements_of(written, {second + ".weight", {shape.rows - upper, shape.columns}});
  elements.insert(elements.end(), lower.begin(), lower.end());
  return elements;
}

// Returns a shard's rows of the file's only hash table.
std::vector<float> elements_of_shard(const WeightSource& written, const CheckpointConfig& config,
                                     const std::string& table, std::size_t shard, MatrixShape shape) {
  const MatrixShape all{shape.rows * config.hash_table.shards, shape.columns};
  return test::read_slice(written, table + ".weight", all,
                          TensorSlice::of_rows(all, {shard * shape.rows, (shard + 1) * shape.rows}));
}

// Returns the elements of the checkpoint's tensor in the file's order.
std::vector<float> written_elements(const WeightSource& written, const CheckpointConfig& config,
                                    const WeightSource& checkpoint, ModelTensor tensor) {
  const TensorNames names = make_spec(config).names;
  if (!written.contains(tensor.name)) tensor.name = name_in_file(names, checkpoint, tensor.name);
  if (written.contains(tensor.name)) return elements_of(written, tensor);
  const std::size_t number = tensor.name.find_first_of("0123456789");
  const std::string prefix = tensor.name.substr(0, tensor.name.find('.', number) + 1);
  const BlockNames block = names.names_of_block(prefix);
  if (!block.qkv_proj.empty() && tensor.name.starts_with(block.qkv_proj + "."))
    return elements_by_kv_head(written, config, block, tensor);
  const GatedMlpNames shared = block.experts.shared_expert;
  if (tensor.name == shared.gate_up_proj + ".weight")
    return elements_of_two(written, tensor.shape, tensor.shape.rows / 2, shared.gate_proj, shared.up_proj);
  const PooledIndexerNames& indexer = block.pooled_indexer;
  if (tensor.name == indexer.qk_proj + ".weight")
    return elements_of_two(written, tensor.shape, tensor.shape.rows - config.pooled_indexer.head_dim,
                           indexer.q_proj, indexer.k_proj);
  const std::string& shards = block.hash_table.shards;
  if (!shards.empty() && tensor.name.starts_with(shards))
    return elements_of_shard(written, config, names.hash_table, std::stoul(tensor.name.substr(shards.size())),
                             tensor.shape);
  return elements_of_experts(written, names.names_of_block(prefix).experts, tensor, config.num_experts);
}

// The reader finds the checkpoint's tensors under their names, with the same rows and columns. Two kinds of
// tensors are equal only after rounding: gains with an offset, like Gemma's, were added to and subtracted
// from; decays of mixers went through an exponential.
TEST(QuantizeModel, WritesEveryTensorOfEveryFamily) {
  std::size_t families = 0;
  for (const reference::Fixture& fixture : reference::fixtures_of(written_families())) {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "model.gguf";
    const CheckpointConfig config = load_config(fixture.folder);
    if (family_of(config.architecture).gguf.fold_factors != nullptr) continue;  // see gguf_mamba_test.cc
    try {
      quantize(fixture.folder, "f32", file);
    } catch (const ConfigError& error) {
      // GGUF files can't express Falcon's ALiBi, Gemma 2's scale of scores, mixtures in which some layers
      // have no experts, the size of chunks, which layers of Gemma 3 have the window (five of six), or a
      // theta for each layer of Granite SWA. Phi-3.5-MoE's layer norms have a special name there.
      const std::string text = error.what();
      // Stacks of experts with alternating rows are not divided.
      if (config.architecture == "GptOssForCausalLM") {
        EXPECT_CONTAINS(text, "expected tensors that GGUF supports, found model.layers.0.");
        continue;
      }
      EXPECT_TRUE(config.architecture == "PhimoeForCausalLM" || config.alibi ||
                  fixture.name == "gemma2-6heads" || fixture.name == "llama4-scout" ||
                  fixture.name == "qwen3moe-mixed" || fixture.name == "graniteswa" ||
                  fixture.name.starts_with("gemma3-"))
          << fixture.name << ": " << text;
      EXPECT_CONTAINS(text, "would be lost; use the checkpoint without converting it");
      continue;
    }
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    const auto written = GgufCheckpoint::open(file);
    const ModelSpec spec = make_spec(config);
    // Norms with an offset, and the rates of recurrent layers, whose exponentials are stored in files.
    const bool rounds = spec.names.gguf.norm_offset != 0 || std::ranges::any_of(spec.blocks, keeps_state);
    const std::vector<ModelTensor> tensors = model_tensors(make_spec(config), *source);
    EXPECT_FALSE(tensors.empty());
    for (const ModelTensor& tensor : tensors) {
      const std::vector<float> expected = elements_of(*source, tensor);
      const std::vector<float> found = written_elements(*written, config, *source, tensor);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], rounds ? 1e-7 * (1 + std::abs(expected[i])) : 0.0)
            << fixture.name << ", " << tensor.name << ", " << i;
    }
    ++families;
  }
  EXPECT_GE(families, 8U);
}

// The language model of a checkpoint with a vision tower gives the same file as the language model by itself.
TEST(QuantizeModel, WritesGemma3FromCheckpointsWithAndWithoutAVisionTower) {
  const TemporaryDirectory directory;
  const std::filesystem::path alone_folder = reference::fixture("gemma3-pattern3").folder;
  const std::filesystem::path part_folder = reference::fixture("gemma3-multimodal-layout").folder;
  // Both fixtures have the same sizes but different numbers, so the part gets the numbers of the separate
  // model.
  const test::Tensors of_alone = test::tensors_of(alone_folder);
  test::Tensors of_part = test::tensors_of(part_folder);
  for (const auto& [name, values] : of_alone) of_part.at("language_model." + name) = values;
  const auto write = [&](const std::string& name, nlohmann::json config, const test::Tensors& tensors) {
    const TemporaryDirectory model;
    (config.contains("text_config") ? config["text_config"] : config)["sliding_window_pattern"] = 6;
    test::write_checkpoint(model.path(), config, tensors);
    const std::filesystem::path file = directory.path() / (name + ".gguf");
    quantize(model.path(), "f32", file);
    return GgufFiles(file);
  };
  const GgufFiles alone = write("alone", test::config_in(alone_folder), of_alone);
  const GgufFiles part = write("part", test::config_in(part_folder), of_part);
  EXPECT_EQ(part.tensors().size(), alone.tensors().size());
  for (const auto& [name, entry] : alone.tensors()) {
    const GgufFiles::Entry* const other = part.find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_EQ(std::memcmp(entry.file.bytes().data() + entry.tensor.bytes.begin,
                          other->file.bytes().data() + other->tensor.bytes.begin, entry.tensor.bytes.size()),
              0)
        << name;
  }
  EXPECT_EQ(alone.metadata().text("general.architecture"), "gemma3");
  EXPECT_EQ(alone.metadata().number("gemma3.rope.freq_base"), 1e4);  // all four layers have the window
}

// Converts the same tensors twice: directly to a quantized file, and through an f32 file.
TEST(QuantizeModel, WritesTheSameTensorsFromCheckpointsAndFromTheirGgufFiles) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const TemporaryDirectory directory;
  quantize(fixture.folder, "f32", directory.path() / "f32.gguf");
  for (const std::string& weights : TypeChoice::names()) {
    quantize(fixture.folder, weights, directory.path() / "one.gguf");
    quantize(directory.path() / "f32.gguf", weights, directory.path() / "two.gguf");
    const GgufFiles one(directory.path() / "one.gguf");
    const GgufFiles two(directory.path() / "two.gguf");
    ASSERT_EQ(one.tensors().size(), two.tensors().size());
    for (const auto& [name, entry] : one.tensors()) {
      const GgufFiles::Entry& other = *two.find(name);
      ASSERT_EQ(entry.tensor.type, other.tensor.type) << name;
      ASSERT_EQ(entry.tensor.shape, other.tensor.shape) << name;
      ASSERT_EQ(entry.tensor.bytes, other.tensor.bytes) << name;
      ASSERT_EQ(std::memcmp(entry.file.bytes().data() + entry.tensor.bytes.begin,
                            other.file.bytes().data() + entry.tensor.bytes.begin, entry.tensor.bytes.size()),
                0)
          << weights << ", " << name;
    }
    EXPECT_EQ(one.metadata().whole("general.file_type"), two.metadata().whole("general.file_type"));
  }
}

// The values follow the definition of the formats, element by element.
TEST(QuantizeModel, IsReadByItsFormats) {
  const std::filesystem::path mixed = TP_TEST_DATA "/gguf/llama-quant256-Q4_K_M-mixed/model.gguf";
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "model.gguf";
  for (const std::string& weights : TypeChoice::names()) {
    quantize(mixed, weights, file);
    const auto source = GgufCheckpoint::open(file);
    const GgufFiles::Entry& entry = *source->files().find("blk.0.ffn_down.weight");
    const GgufType& type = entry.tensor.type;
    if (plain_type(type)) continue;
    const MatrixShape shape{entry.tensor.shape[0], entry.tensor.shape[1]};
    const std::vector<float> read = elements_of(*source, {"model.layers.0.mlp.down_proj.weight", shape});
    const auto* const data =
        reinterpret_cast<const std::uint8_t*>(entry.file.bytes().data() + entry.tensor.bytes.begin);
    for (std::size_t i = 0; i < read.size(); ++i)
      ASSERT_EQ(read[i], reference::gguf_element(type.name, data + i / type.block_elements * type.block_bytes,
                                                 i % type.block_elements))
          << weights << ", " << i;
  }
}

TEST(QuantizeModel, KeepsTensorsThatAlreadyHaveTheType) {
  const std::filesystem::path mixed = TP_TEST_DATA "/gguf/llama-quant256-Q4_K_M-mixed/model.gguf";
  const TemporaryDirectory directory;
  const QuantizeReport report = quantize(mixed, "q4_k", directory.path() / "model.gguf");
  const GgufFiles before(mixed);
  const GgufFiles after(directory.path() / "model.gguf");
  const GgufFiles::Entry& one = *before.find("blk.0.ffn_up.weight");
  const GgufFiles::Entry& two = *after.find("blk.0.ffn_up.weight");
  ASSERT_EQ(one.tensor.type.name, "Q4_K");
  ASSERT_EQ(two.tensor.type.name, "Q4_K");
  EXPECT_EQ(std::memcmp(one.file.bytes().data() + one.tensor.bytes.begin,
                        two.file.bytes().data() + two.tensor.bytes.begin, one.tensor.bytes.size()),
            0);
  ASSERT_EQ(report.notices.size(), 1U);
  EXPECT_TRUE(report.notices.front().ends_with("the original model gives a better file"));
}

// NVFP4's factors are multiplied with values that get a different type.
TEST(QuantizeModel, TakesNvfp4WithItsFactors) {
  const std::string_view type = "NVFP4";
  const test::MixedGguf model(std::span(&type, 1));
  const TemporaryDirectory directory;
  quantize(directory.write("nvfp4.gguf", model.stored()), "f32", directory.path() / "f32.gguf");
  const auto expected = GgufCheckpoint::open(directory.write("plain.gguf", model.plain()));
  const auto written = GgufCheckpoint::open(directory.path() / "f32.gguf");
  EXPECT_EQ(written->names(), expected->names());
  for (const auto& [name, shape] :
       {std::pair{"model.layers.1.mlp.down_proj.weight",
                  MatrixShape{test::kMixedHidden, test::kMixedIntermediate}},
        std::pair{"model.layers.0.self_attn.q_proj.weight",
                  MatrixShape{test::kMixedHidden, test::kMixedHidden}},
        std::pair{"lm_head.weight", MatrixShape{test::kMixedVocab, test::kMixedHidden}}})
    EXPECT_EQ(elements_of(*written, {name, shape}), elements_of(*expected, {name, shape})) << name;
}

std::string refusal(const std::filesystem::path& model, const std::string& weights) {
  const TemporaryDirectory directory;
  const std::string error =
      test::error_of<Error>([&] { quantize(model, weights, directory.path() / "model.gguf"); });
  EXPECT_TRUE(directory.files().empty()) << "nothing is left";
  return error;
}

TEST(QuantizeModel, RejectsModelsThatGgufCannotExpress) {
  EXPECT_EQ(refusal(reference::fixture("gptoss").folder, "f32"),
            "cannot write model as a GGUF file: expected tensors that GGUF supports, found "
            "model.layers.0.mlp.experts.gate_up_proj; use the checkpoint without converting it");
}

TEST(QuantizeModel, RefusesElementsThatTheTypeDoesNotHave) {
  const TemporaryDirectory directory;
  const std::filesystem::path folder = reference::fixture("llama-gqa").folder;
  test::Tensors tensors = test::tensors_of(folder);
  tensors.at("model.layers.1.mlp.up_proj.weight").elements.back() = std::numeric_limits<float>::infinity();
  test::write_checkpoint(directory.path(), test::config_in(folder), tensors);
  const std::string error = refusal(directory.path(), "q8_0");
  EXPECT_TRUE(error.find("expected finite elements of at most 65504 for") != error.npos) << error;
  EXPECT_TRUE(error.ends_with("found inf; the checkpoint may be damaged, or needs another type (`weights`)"))
      << error;
}

}  // namespace
}  // namespace tp
