// Tensor names in checkpoints, tensors that checkpoints store together, and errors about them.
#include "model/config/tensor_names.h"

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/stored_projection.h"
#include "model/weights/unused_tensors.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/reference/fixture.h"

namespace tp {
namespace {

using test::error_of;

std::unique_ptr<SafetensorsCheckpoint> checkpoint_of(const test::TemporaryDirectory& folder,
                                                     const std::vector<std::string>& names) {
  std::vector<test::TestTensor> tensors;
  for (const std::string& name : names) tensors.push_back(test::counting_tensor(name, {2}));
  folder.write("model.safetensors", test::safetensors_file(tensors));
  return SafetensorsCheckpoint::open(folder.path());
}

TEST(TensorNames, HaveTheirPrefixIfTheCheckpointHasIt) {
  const test::TemporaryDirectory folder;
  const auto with = checkpoint_of(folder, {"transformer.wte.weight"});
  const TensorNames prefixed = family_of("GPT2LMHeadModel").names.as_stored_in(*with);
  EXPECT_EQ(prefixed.embed_positions, "transformer.wpe");
  EXPECT_EQ(prefixed.block(3).up_proj, "transformer.h.3.mlp.c_fc");
  EXPECT_EQ(prefixed.lm_head, "lm_head");
  const test::TemporaryDirectory other_folder;
  const auto without = checkpoint_of(other_folder, {"wte.weight"});
  const TensorNames plain = family_of("GPT2LMHeadModel").names.as_stored_in(*without);
  EXPECT_EQ(plain.embed_positions, "wpe");
  EXPECT_EQ(plain.block(3).up_proj, "h.3.mlp.c_fc");
  // An error names the tensor like most checkpoints of the family do.
  EXPECT_EQ(family_of("LlamaForCausalLM").names.as_stored_in(*without).embed_tokens, "model.embed_tokens");
}

TEST(TensorNames, FindALanguageModelThatIsAPartOfALargerOne) {
  const TensorNames names = family_of("Gemma3ForConditionalGeneration").names;
  const auto stored_with = [&](const std::string& embedding) {
    const test::TemporaryDirectory folder;
    return names.as_stored_in(*checkpoint_of(folder, {embedding}));
  };
  const TensorNames published = stored_with("language_model.model.embed_tokens.weight");
  EXPECT_EQ(published.final_norm, "language_model.model.norm");
  EXPECT_EQ(published.block(3).q_norm, "language_model.model.layers.3.self_attn.q_norm");
  EXPECT_EQ(published.lm_head, "language_model.lm_head");
  const TensorNames newer = stored_with("model.language_model.embed_tokens.weight");
  EXPECT_EQ(newer.block(3).q_norm, "model.language_model.layers.3.self_attn.q_norm");
  EXPECT_EQ(newer.lm_head, "lm_head");
  const TensorNames alone = stored_with("model.embed_tokens.weight");
  EXPECT_EQ(alone.block(3).q_norm, "model.layers.3.self_attn.q_norm");
  EXPECT_EQ(alone.lm_head, "lm_head");
}

std::vector<Range> rows_of(const StoredProjection& projection, Range rows) {
  std::vector<OwnedRows> parts;
  projection.append_rows(rows, parts);
  std::vector<Range> ranges;
  for (const OwnedRows& part : parts) ranges.push_back(part.rows);
  return ranges;
}

TEST(StoredProjection, FindsHeadsThatAreStackedOrInterleaved) {
  AttentionSpec spec;
  spec.num_attention_heads = 6;
  spec.num_key_value_heads = 3;
  spec.head_dim = 10;
  BlockNames names;
  names.q_proj = names.k_proj = names.v_proj = "qkv";
  const StoredQkv stacked = stored_qkv(names, spec, 8);
  EXPECT_EQ(stacked.query.layer.shape, (MatrixShape{120, 8}));
  EXPECT_EQ(rows_of(stacked.query, {20, 40}), (std::vector<Range>{{20, 40}}));
  EXPECT_EQ(rows_of(stacked.key, {10, 30}), (std::vector<Range>{{70, 90}}));
  EXPECT_EQ(rows_of(stacked.value, {10, 30}), (std::vector<Range>{{100, 120}}));
  // Two queries, a key and a value; and again.
  names.fused_qkv = BlockNames::FusedQkv::by_kv_head;
  const StoredQkv interleaved = stored_qkv(names, spec, 8);
  EXPECT_EQ(interleaved.query.layer.shape, (MatrixShape{120, 8}));
  EXPECT_EQ(rows_of(interleaved.query, {10, 50}), (std::vector<Range>{{10, 20}, {40, 60}, {80, 90}}));
  EXPECT_EQ(rows_of(interleaved.key, {10, 30}), (std::vector<Range>{{60, 70}, {100, 110}}));
  EXPECT_EQ(rows_of(interleaved.value, {0, 20}), (std::vector<Range>{{30, 40}, {70, 80}}));
  EXPECT_EQ(rows_of(interleaved.key, {10, 10}), std::vector<Range>());
}

TEST(UnusedTensors, AreTensorsThatMayHoldWeights) {
  const test::TemporaryDirectory folder;
  const auto source =
      checkpoint_of(folder, {"transformer.wte.weight", "transformer.h.0.attn.bias",
                             "transformer.h.0.attn.masked_bias", "score.weight", "v_head.summary.bias"});
  source->read("transformer.wte.weight", {1, 2}, TensorSlice::whole({1, 2}),
               TensorView<float>(std::vector<float>(2).data(), 1, 2));
  const TensorNames names = family_of("GPT2LMHeadModel").names.as_stored_in(*source);
  EXPECT_EQ(find_unused_tensors(names, *source, source->unread()),
            (std::vector<std::string>{"score.weight", "v_head.summary.bias"}));
}

// Unquantized weights may have scales of the KV cache, too.
TEST(UnusedTensors, AreNotScalesOfActivationsAndTheCache) {
  const test::TemporaryDirectory folder;
  const auto source = checkpoint_of(
      folder, {"model.layers.0.self_attn.kv_scale", "model.layers.0.self_attn.prob_scale",
               "model.layers.0.self_attn.attn.k_scale", "model.layers.0.mlp.up_proj.input_scale",
               "model.layers.0.self_attn.v_proj.output_scale"});
  EXPECT_EQ(find_unused_tensors(family_of("LlamaForCausalLM").names.as_stored_in(*source), *source,
                                source->unread()),
            std::vector<std::string>());
}

TEST(UnusedTensors, InsideABlockAreAnError) {
  const test::TemporaryDirectory folder;
  const auto source = checkpoint_of(folder, {"model.layers.0.self_attn.q_proj.bias"});
  EXPECT_EQ(error_of<CheckpointError>([&] {
              find_unused_tensors(family_of("LlamaForCausalLM").names.as_stored_in(*source), *source,
                                  source->unread());
            }),
            "the checkpoint has a tensor model.layers.0.self_attn.q_proj.bias that a model of its "
            "configuration does not use; the configuration (config.json, or a GGUF file's metadata) and the "
            "weights must be of the same model");
}

std::string refusal_of(const std::string& fixture, const std::function<void(CheckpointConfig&)>& change) {
  const std::filesystem::path folder = reference::fixture(fixture).folder;
  CheckpointConfig config = load_config(folder);
  change(config);
  const auto source = SafetensorsCheckpoint::open(folder);
  return error_of<CheckpointError>([&] { Model(make_spec(config), *source, {0, 1}); });
}

TEST(Loading, NamesFusedAndTransposedTensorsAsTheCheckpointDoes) {
  EXPECT_EQ(
      refusal_of("gpt2-6heads", [](CheckpointConfig& config) { config.intermediate_size = 208; }),
      "model.safetensors: transformer.h.0.mlp.c_fc.weight is [96, 200], expected [96, 208] (hidden_size, "
      "intermediate_size)");
  EXPECT_EQ(
      refusal_of("gptneox", [](CheckpointConfig& config) { config.head_dim = 8; }),
      "model.safetensors: gpt_neox.layers.0.attention.query_key_value.weight is [192, 64], expected [96, "
      "64] ((num_attention_heads + 2 num_key_value_heads) x head_dim, hidden_size)");
  EXPECT_CONTAINS(
      refusal_of("falcon-newarch-gqa", [](CheckpointConfig& config) { config.num_ln_in_parallel_attn = 1; }),
      "there is no tensor transformer.h.0.input_layernorm.weight");
  EXPECT_CONTAINS(
      refusal_of("gpt2-6heads", [](CheckpointConfig& config) { config.max_position_embeddings = 64; }),
      "transformer.wpe.weight is [128, 96], expected [64, 96] (max_position_embeddings, hidden_size)");
  EXPECT_CONTAINS(refusal_of("gptneox", [](CheckpointConfig& config) { config.attention_bias = false; }),
                  "has a tensor gpt_neox.layers.0.attention.dense.bias that");
}

}  // namespace
}  // namespace tp
