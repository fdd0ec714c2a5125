#include "model/weights/gguf_checkpoint.h"

#include "tests/model/weights/gguf_builder.h"
#include "tests/model/weights/listed_types.h"
#include "tests/model/weights/read_tensor.h"

#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::error_of;
using test::GgufBuilder;
using test::read_slice;
using test::TemporaryDirectory;

// 0, 1, 2, ...
std::string counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return test::bytes_of(values);
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

// The metadata of a model with two heads of four elements.
GgufBuilder model(const std::string& architecture) {
  GgufBuilder builder;
  builder.text("general.architecture", architecture)
      .whole(architecture + ".embedding_length", 8)
      .whole(architecture + ".attention.head_count", 2);
  return builder;
}

class GgufCheckpointTest : public testing::Test {
 protected:
  std::unique_ptr<GgufCheckpoint> open(const GgufBuilder& builder) {
    return GgufCheckpoint::open(folder_.write("m.gguf", builder.file()));
  }

  TemporaryDirectory folder_;
};

TEST_F(GgufCheckpointTest, KnowsTheNamesOfItsFile) {
  const auto source =
      open(model("qwen3moe").tensor("blk.1.ffn_up_exps.weight", {3, 2, 2}, "F32", counting(12)));
  EXPECT_EQ(source->stored_name("model.layers.1.self_attn.q_proj.bias"), "blk.1.attn_q.bias");
  EXPECT_EQ(source->stored_name("model.layers.1.mlp.experts.2.up_proj.weight"),
            "blk.1.ffn_up_exps.weight (expert 2)");
  EXPECT_EQ(source->stored_name("model.layers.1.foo.weight"), "blk.1.foo.weight");
  EXPECT_EQ(source->stored_name("foo.weight"), "foo.weight");
}

// Two query heads and one KV head of four elements.
TEST_F(GgufCheckpointTest, ReadsQueriesKeysAndValuesFromOneTensor) {
  GgufBuilder file = model("llama").whole("llama.attention.head_count_kv", 1);
  file.tensor("blk.0.attn_qkv.weight", {16, 1}, "F32", counting(16));
  file.tensor("blk.0.attn_qkv.bias", {16}, "F32", counting(16));
  const auto source = open(file);
  const std::string block = "model.layers.0.self_attn.";
  for (const char* const projection : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "v_proj.bias"})
    EXPECT_TRUE(source->contains(block + projection)) << projection;
  EXPECT_EQ(read_slice(*source, block + "q_proj.weight", {8, 1}, {{2, 6}, {0, 1}}),
            (std::vector<float>{1, 3, 4, 6}));  // rows 0, 4, 1, ... of the checkpoint are interleaved
  EXPECT_EQ(read_slice(*source, block + "k_proj.weight", {4, 1}, {{0, 4}, {0, 1}}),
            (std::vector<float>{8, 10, 9, 11}));
  EXPECT_EQ(read_slice(*source, block + "v_proj.weight", {4, 1}, {{1, 3}, {0, 1}}),
            (std::vector<float>{13, 14}));
  EXPECT_EQ(read_slice(*source, block + "v_proj.bias", {1, 4}, {{0, 1}, {1, 3}}),
            (std::vector<float>{13, 14}));
  EXPECT_EQ(source->stored_name(block + "k_proj.weight"), "blk.0.attn_qkv.weight");
  EXPECT_EQ(source->names(), (std::vector<std::string>{block + "k_proj.bias", block + "k_proj.weight",
                                                       block + "q_proj.bias", block + "q_proj.weight",
                                                       block + "v_proj.bias", block + "v_proj.weight"}));
  EXPECT_TRUE(source->unread().empty());
  EXPECT_CONTAINS(error_of<CheckpointError>([&] {
                    source->expect(block + "k_proj.weight", {8, 1}, "heads");
                  }),
                  "blk.0.attn_k.weight in blk.0.attn_qkv.weight is [4, 1], expected [8, 1] (heads)");
}

TEST_F(GgufCheckpointTest, ReadsSlicesByTheNamesOfHuggingFaceAndCountsTheirBytes) {
  const auto source = open(model("qwen2").tensor("blk.3.ffn_up.weight", {3, 4}, "F32", counting(12)));
  const std::string name = "model.layers.3.mlp.up_proj.weight";
  EXPECT_TRUE(source->contains(name));
  EXPECT_FALSE(source->contains("model.layers.2.mlp.up_proj.weight"));
  EXPECT_FALSE(source->contains("something.else.weight"));
  EXPECT_EQ(source->dtype(name), DType::f32);
  EXPECT_EQ(read_slice(*source, name, {3, 4}, {{1, 3}, {1, 3}}), (std::vector<float>{5, 6, 9, 10}));
  EXPECT_EQ(source->bytes_read(), 16U);
  EXPECT_EQ(source->stored_bytes(), 48U);
}

// Rows 0, 1, 2, 3 of a head are stored as 0, 2, 1, 3: its halves, element by element.
TEST_F(GgufCheckpointTest, PutsTheRowsOfLlamasQueriesAndKeysBackInOrder) {
  const GgufBuilder file = model("llama")
                               .tensor("blk.0.attn_q.weight", {8, 1}, "F32", counting(8))
                               .tensor("blk.0.attn_k.bias", {8}, "F32", counting(8))
                               .tensor("blk.0.attn_v.weight", {8, 1}, "F32", counting(8));
  const auto source = open(file);
  const TensorSlice rows{{1, 8}, {0, 1}};
  EXPECT_EQ(read_slice(*source, "model.layers.0.self_attn.q_proj.weight", {8, 1}, rows),
            (std::vector<float>{2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(read_slice(*source, "model.layers.0.self_attn.k_proj.bias", {1, 8}, {{0, 1}, {4, 8}}),
            (std::vector<float>{4, 6, 5, 7}));
  EXPECT_EQ(read_slice(*source, "model.layers.0.self_attn.v_proj.weight", {8, 1}, rows),
            (std::vector<float>{1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(GgufCheckpointTest, ReadsOfQuantizedRowsTheBlocksThatTheColumnsTouch) {
  const auto source =
      open(model("qwen2").tensor("token_embd.weight", {2, 96}, "Q8_0", std::string(204, '\1')));
  const std::string name = "model.embed_tokens.weight";
  EXPECT_EQ(read_slice(*source, name, {2, 96}, {{0, 2}, {31, 33}}).size(), 4U);
  EXPECT_EQ(source->bytes_read(), 2U * 2 * 34);
  EXPECT_EQ(source->dtype(name), DType::bf16);
}

TEST_F(GgufCheckpointTest, OffersOnlyWholeGroups) {
  const auto source = open(model("qwen2")
                               .tensor("token_embd.weight", {1, 96}, "Q8_0", std::string(102, '\1'))
                               .tensor("output.weight", {1, 96}, "Q4_0", std::string(54, '\1'))
                               .tensor("output_norm.weight", {256}, "Q8_K", std::string(292, '\1'))
                               .tensor("blk.0.ffn_up.weight", {1, 256}, "Q6_K", std::string(210, '\1'))
                               .tensor("blk.0.ffn_gate.weight", {1, 256}, "Q4_K", std::string(144, '\1')));
  EXPECT_EQ(source->group_type("model.embed_tokens.weight", {32, 96}), WeightType::int8);
  EXPECT_EQ(source->group_type("model.embed_tokens.weight", {16, 96}), std::nullopt);
  EXPECT_EQ(source->group_type("model.embed_tokens.weight", {0, 80}), std::nullopt);
  EXPECT_EQ(source->group_type("lm_head.weight", {0, 32}), WeightType::int4);
  // Super-blocks may be cut between their groups.
  const std::string mlp = "model.layers.0.mlp.";
  EXPECT_EQ(source->group_type(mlp + "up_proj.weight", {48, 256}), WeightType::q6_k);
  EXPECT_EQ(source->group_type(mlp + "up_proj.weight", {0, 40}), std::nullopt);
  EXPECT_EQ(source->group_type(mlp + "gate_proj.weight", {32, 96}), WeightType::q4_k);
  EXPECT_EQ(source->group_type(mlp + "gate_proj.weight", {48, 256}), std::nullopt);
}

TEST_F(GgufCheckpointTest, NamesMissingMisshapenAndUnreadableTensors) {
  const auto source = open(model("qwen2")
                               .tensor("blk.0.attn_q.weight", {2, 32}, "F32", counting(64))
                               .tensor("blk.0.attn_k.weight", {1, 256}, "Q8_K", std::string(292, '\1'))
                               .tensor("blk.0.attn_v.weight", {1, 2, 16}, "F32", counting(32)));
  const std::string block = "model.layers.0.self_attn.";
  const auto error = [&](const std::string& name) {
    return error_of<CheckpointError>([&] { source->expect(block + name, {2, 16}, "heads"); });
  };
  EXPECT_CONTAINS(error("q_proj.weight"), "m.gguf: blk.0.attn_q.weight is [2, 32], expected [2, 16] (heads)");
  EXPECT_CONTAINS(error("k_proj.weight"), "has the type Q8_K, expected one of F32, F16, Q4_0");
  EXPECT_CONTAINS(error("v_proj.weight"), "is [1, 2, 16], expected a matrix or a vector");
  EXPECT_CONTAINS(error("o_proj.weight"), "there is no tensor blk.0.attn_output.weight");
}

TEST_F(GgufCheckpointTest, ReportsStoredTypesAndTypesInMemory) {
  const auto source = open(model("qwen2")
                               .tensor("a", {32}, "F32", counting(32))
                               .tensor("b", {2, 32}, "Q4_0", std::string(36, '\1'))
                               .tensor("c", {32}, "F32", counting(32))
                               .tensor("d", {256}, "Q6_K", std::string(210, '\1'))
                               .tensor("e", {256}, "Q8_K", std::string(292, '\1'))
                               .tensor("f", {2, 512}, "Q4_K", std::string(576, '\1')));
  const std::vector<TypeUse> types = source->types();
  ASSERT_EQ(types.size(), 5U);
  EXPECT_EQ(types[0].type, "Q4_K");
  EXPECT_EQ(types[0].elements, 1024U);
  EXPECT_EQ(types[2].held_as, std::nullopt);
  EXPECT_EQ(test::listed_types(types), "Q4_K as q4_k, Q6_K as q6_k, F32 as f32, Q4_0 as int4");
  EXPECT_EQ(list_rounded(types), "");

  // Columns of the file are GPT-2's input features, and groups of rows.
  const auto gpt2 = open(model("gpt2")
                             .tensor("token_embd.weight", {1, 256}, "Q4_K", std::string(144, '\1'))
                             .tensor("blk.0.attn_qkv.weight", {2, 256}, "Q4_K", std::string(288, '\1')));
  EXPECT_EQ(test::listed_types(gpt2->types()), "Q4_K as bf16, Q4_K as q4_k");
  EXPECT_EQ(list_rounded(gpt2->types()), "Q4_K as bf16");
  EXPECT_EQ(gpt2->group_type("transformer.h.0.attn.c_attn.weight", {0, 256}), std::nullopt);
}

// Follows GGUF's converters. Only the first rule is tested with a whole model elsewhere.
TEST_F(GgufCheckpointTest, UndoesTheFamiliesConverters) {
  const auto gemma = open(model("gemma2").tensor("output_norm.weight", {2}, "F32", counting(2)));
  EXPECT_EQ(read_slice(*gemma, "model.norm.weight", {1, 2}, {{0, 1}, {0, 2}}), (std::vector<float>{-1, 0}));

  const auto gpt2 = open(model("gpt2").tensor("blk.0.attn_qkv.weight", {3, 2}, "F32", counting(6)));
  EXPECT_EQ(read_slice(*gpt2, "transformer.h.0.attn.c_attn.weight", {2, 3}, {{0, 2}, {1, 3}}),
            (std::vector<float>{2, 4, 3, 5}));

  // Two KV heads with one query head each: the heads are stored as q q k k v v.
  GgufBuilder neox = model("gptneox").whole("gptneox.attention.key_length", 1);
  const auto gpt_neox = open(neox.tensor("blk.0.attn_qkv.weight", {6, 1}, "F32", counting(6)));
  EXPECT_EQ(
      read_slice(*gpt_neox, "gpt_neox.layers.0.attention.query_key_value.weight", {6, 1}, {{0, 6}, {0, 1}}),
      (std::vector<float>{0, 2, 4, 1, 3, 5}));

  const auto experts =
      open(model("qwen3moe").tensor("blk.1.ffn_up_exps.weight", {3, 2, 2}, "F32", counting(12)));
  EXPECT_EQ(read_slice(*experts, "model.layers.1.mlp.experts.2.up_proj.weight", {2, 2}, {{0, 2}, {1, 2}}),
            (std::vector<float>{9, 11}));
  EXPECT_CONTAINS(error_of<CheckpointError>([&] {
                    experts->expect("model.layers.1.mlp.experts.3.up_proj.weight", {2, 2}, "");
                  }),
                  "expected a stack with an expert 3");
}

// Blocks of ones: E2M1's index 2 is 1, and FP8's bits 0x38 are 1.
TEST_F(GgufCheckpointTest, MultipliesNvfp4ByTheFactorOfAMatrixOrExpert) {
  const std::string ones = std::string(4, '\x38') + std::string(32, '\x22');
  const auto with_factors = [&](const std::vector<std::uint64_t>& shape, const std::string& type,
                                const std::string& factors) {
    return open(model("qwen3moe")
                    .tensor("blk.1.attn_q.weight", {1, 64}, "NVFP4", ones)
                    .tensor("blk.1.attn_q.scale", {1}, "F32", test::le(0.1F))
                    .tensor("blk.1.attn_k.weight", {1, 64}, "NVFP4", ones)
                    .tensor("blk.1.attn_k.input_scale", {1}, "F32", test::le(7.0F))
                    .tensor("blk.1.ffn_up_exps.weight", {2, 1, 64}, "NVFP4", ones + ones)
                    .tensor("blk.1.ffn_up_exps.scale", shape, type, factors));
  };
  const auto source = with_factors({2}, "F32", test::le(2.0F, 3.0F));
  const auto first = [&](const std::string& layer) {
    const std::string name = "model.layers.1." + layer + ".weight";
    EXPECT_EQ(source->group_type(name, {0, 64}), WeightType::nvfp4);
    return read_slice(*source, name, {1, 64}, {{0, 1}, {63, 64}}).front();
  };
  EXPECT_EQ(first("self_attn.q_proj"), 0.1F);
  EXPECT_EQ(first("self_attn.k_proj"), 1.0F);
  EXPECT_EQ(first("mlp.experts.0.up_proj"), 2.0F);
  EXPECT_EQ(first("mlp.experts.1.up_proj"), 3.0F);
  EXPECT_EQ(source->names(), (std::vector<std::string>{
                                 "model.layers.1.mlp.experts.0.up_proj.weight",
                                 "model.layers.1.mlp.experts.1.up_proj.weight",
                                 "model.layers.1.self_attn.k_proj.weight",
                                 "model.layers.1.self_attn.q_proj.weight",
                             }));
  EXPECT_TRUE(source->unread().empty());
  for (const auto& [shape, type, factors] : {std::tuple{std::vector<std::uint64_t>{1}, "F32", test::le(2.0F)},
                                             {std::vector<std::uint64_t>{2}, "F16", std::string(4, '\0')}}) {
    const auto damaged = with_factors(shape, type, factors);
    EXPECT_CONTAINS(
        error_of<CheckpointError>([&] {
          damaged->expect("model.layers.1.mlp.experts.1.up_proj.weight", {1, 64}, "");
        }),
        fmt::format("m.gguf: blk.1.ffn_up_exps.scale is [{}] of {}, expected 2 of F32; convert the "
                    "checkpoint to GGUF again",
                    shape[0], type));
  }
}

// Two heads of two key rows and one value row, of three columns. The file has keys by columns.
TEST_F(GgufCheckpointTest, PutsTogetherDeepSeeksKvBFromTwoStacks) {
  GgufBuilder file = model("deepseek2")
                         .tensor("blk.0.attn_k_b.weight", {2, 3, 2}, "F32", counting(12))
                         .tensor("blk.0.attn_v_b.weight", {2, 1, 3}, "F32", counting(6));
  const auto source = open(file);
  const std::string name = "model.layers.0.self_attn.kv_b_proj.weight";
  EXPECT_TRUE(source->contains(name));
  EXPECT_EQ(read_slice(*source, name, {6, 3}, {{0, 6}, {0, 3}}),
            (std::vector<float>{0, 2, 4, 1, 3, 5, 0, 1, 2, 6, 8, 10, 7, 9, 11, 3, 4, 5}));
  EXPECT_EQ(source->bytes_read(), 18U * 4);
  EXPECT_EQ(read_slice(*source, name, {6, 3}, {{1, 4}, {1, 3}}), (std::vector<float>{3, 5, 1, 2, 8, 10}));
  const std::string ones = std::string(4, '\x38') + std::string(32, '\x22');
  const auto nvfp4 = open(model("deepseek2")
                              .tensor("blk.0.attn_k_b.weight", {1, 64, 64}, "NVFP4", repeated(ones, 64))
                              .tensor("blk.0.attn_v_b.weight", {1, 1, 64}, "NVFP4", ones)
                              .tensor("blk.0.attn_k_b.scale", {1}, "F32", test::le(2.0F))
                              .tensor("blk.0.attn_v_b.scale", {1}, "F32", test::le(3.0F)));
  EXPECT_EQ(read_slice(*nvfp4, name, {65, 64}, {{63, 65}, {0, 1}}), (std::vector<float>{2, 3}));
  const auto damaged = open(model("deepseek2")
                                .tensor("blk.0.attn_k_b.weight", {2, 3, 2}, "F32", counting(12))
                                .tensor("blk.0.attn_v_b.weight", {2, 1, 4}, "F32", counting(8)));
  EXPECT_CONTAINS(error_of<CheckpointError>([&] {
                    damaged->expect(name, {6, 3}, "");
                  }),
                  "attn_k_b.weight is [2, 3, 2] and blk.0.attn_v_b.weight is [2, 1, 4]");
}

TEST_F(GgufCheckpointTest, RefusesHeadsThatDoNotFitTheMetadata) {
  const auto source = open(model("llama").tensor("blk.0.attn_q.weight", {6, 1}, "F32", counting(6)));
  EXPECT_CONTAINS(error_of<CheckpointError>([&] {
                    source->expect("model.layers.0.self_attn.q_proj.weight", {6, 1}, "");
                  }),
                  "is [6, 1], expected whole heads of 4 rows");
  // Found by fuzz_gguf, which divided by zero heads.
  const auto empty_heads = open(model("llama")
                                    .whole("llama.attention.key_length", 0)
                                    .tensor("blk.0.attn_q.weight", {6, 1}, "F32", counting(6)));
  EXPECT_CONTAINS(error_of<CheckpointError>([&] {
                    empty_heads->expect("model.layers.0.self_attn.q_proj.weight", {6, 1}, "");
                  }),
                  "expected whole heads of 0 rows");
}

// These names are used to find tensors that a model doesn't use.
TEST_F(GgufCheckpointTest, ListsItsTensorsByTheirNamesInACheckpoint) {
  const auto source = open(model("qwen3moe")
                               .tensor("token_embd.weight", {1, 1}, "F32", counting(1))
                               .tensor("rope_freqs.weight", {1}, "F32", counting(1))
                               .tensor("blk.7.ffn_up_exps.weight", {2, 1, 1}, "F32", counting(2))
                               .tensor("blk.7.attn_sinks.weight", {1}, "F32", counting(1))
                               .tensor("unheard.of", {1}, "F32", counting(1)));
  EXPECT_EQ(source->names(),
            (std::vector<std::string>{"model.embed_tokens.weight", "model.layers.7.attn_sinks.weight",
                                      "model.layers.7.mlp.experts.0.up_proj.weight",
                                      "model.layers.7.mlp.experts.1.up_proj.weight", "unheard.of"}));
  for (const std::string& name : source->names())
    EXPECT_EQ(source->contains(name), name.find("sinks") == name.npos && name != "unheard.of") << name;
}

struct NamePair {
  std::string architecture;
  std::string in_file;
  std::string in_checkpoint;
};

// These are the names in GGUF's converters for tensors that only these families have.
TEST_F(GgufCheckpointTest, KnowsTheTensorsOfEveryFamilyByBothNames) {
  const std::vector<NamePair> pairs = {
      {"llama", "output_norm", "model.norm"},
      {"llama", "blk.2.ffn_norm", "model.layers.2.post_attention_layernorm"},
      {"llama", "blk.2.attn_output", "model.layers.2.self_attn.o_proj"},
      {"qwen2moe", "blk.2.ffn_gate_inp_shexp", "model.layers.2.mlp.shared_expert_gate"},
      {"qwen2moe", "blk.2.ffn_down_shexp", "model.layers.2.mlp.shared_expert.down_proj"},
      {"qwen3", "blk.2.attn_k_norm", "model.layers.2.self_attn.k_norm"},
      {"qwen3moe", "blk.2.ffn_gate_inp", "model.layers.2.mlp.gate"},
      {"phi3", "blk.2.attn_qkv", "model.layers.2.self_attn.qkv_proj"},
      {"phi3", "blk.2.ffn_up", "model.layers.2.mlp.gate_up_proj"},
      {"gemma", "blk.2.ffn_norm", "model.layers.2.post_attention_layernorm"},
      {"gemma2", "blk.2.post_attention_norm", "model.layers.2.post_attention_layernorm"},
      {"gemma2", "blk.2.ffn_norm", "model.layers.2.pre_feedforward_layernorm"},
      {"gemma2", "blk.2.post_ffw_norm", "model.layers.2.post_feedforward_layernorm"},
      {"deepseek2", "blk.2.attn_q", "model.layers.2.self_attn.q_proj"},
      {"deepseek2", "blk.2.attn_q_a_norm", "model.layers.2.self_attn.q_a_layernorm"},
      {"deepseek2", "blk.2.attn_kv_a_mqa", "model.layers.2.self_attn.kv_a_proj_with_mqa"},
      {"deepseek2", "blk.2.ffn_up_shexp", "model.layers.2.mlp.shared_experts.up_proj"},
      {"gpt2", "position_embd", "transformer.wpe"},
      {"gpt2", "blk.2.attn_norm", "transformer.h.2.ln_1"},
      {"gpt2", "blk.2.ffn_up", "transformer.h.2.mlp.c_fc"},
      {"gptneox", "output", "embed_out"},
      {"gptneox", "blk.2.attn_qkv", "gpt_neox.layers.2.attention.query_key_value"},
      {"gptneox", "blk.2.ffn_down", "gpt_neox.layers.2.mlp.dense_4h_to_h"},
      {"falcon", "blk.2.attn_norm", "transformer.h.2.input_layernorm"},
      {"falcon", "blk.2.attn_output", "transformer.h.2.self_attention.dense"},
  };
  for (const NamePair& pair : pairs) {
    const auto source =
        open(model(pair.architecture).tensor(pair.in_file + ".weight", {2, 1}, "F32", counting(2)));
    EXPECT_EQ(source->names(), std::vector<std::string>{pair.in_checkpoint + ".weight"}) << pair.in_file;
    EXPECT_TRUE(source->contains(pair.in_checkpoint + ".weight")) << pair.in_file;
  }
}

TEST_F(GgufCheckpointTest, KnowsTensorsThatDependOnTheModel) {
  const auto falcon = open(model("falcon")
                               .tensor("blk.0.attn_norm.weight", {2}, "F32", counting(2))
                               .tensor("blk.0.attn_norm_2.weight", {2}, "F32", counting(2)));
  EXPECT_EQ(falcon->names(),
            (std::vector<std::string>{"transformer.h.0.ln_attn.weight", "transformer.h.0.ln_mlp.weight"}));
  const auto mixtral = open(model("llama")
                                .whole("llama.expert_count", 2)
                                .tensor("blk.3.ffn_down_exps.weight", {2, 2, 1}, "F32", counting(4)));
  EXPECT_EQ(mixtral->names(),
            (std::vector<std::string>{"model.layers.3.block_sparse_moe.experts.0.w2.weight",
                                      "model.layers.3.block_sparse_moe.experts.1.w2.weight"}));
  const auto deepseek3 = open(model("deepseek2")
                                  .whole("deepseek2.expert_gating_func", 2)
                                  .tensor("blk.1.exp_probs_b.bias", {2}, "F32", counting(2)));
  EXPECT_EQ(deepseek3->names(), std::vector<std::string>{"model.layers.1.mlp.gate.e_score_correction_bias"});
  EXPECT_TRUE(deepseek3->contains("model.layers.1.mlp.gate.e_score_correction_bias"));
}

TEST_F(GgufCheckpointTest, RefusesAnArchitectureThatNoFamilyHas) {
  const std::string error = error_of<ConfigError>([&] { open(model("rwkv6")); });
  EXPECT_CONTAINS(error, "m.gguf: GGUF models of the architecture rwkv6 are not supported; supported are ");
  EXPECT_CONTAINS(error, "qwen2, qwen2moe, qwen2vl, qwen3");
}

}  // namespace
}  // namespace tp
