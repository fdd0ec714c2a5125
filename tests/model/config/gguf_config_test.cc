// The meaning of metadata in GGUF files.
#include "model/config/config.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"

#include <cmath>
#include <functional>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::error_of;
using test::GgufBuilder;
using test::le;
using test::TemporaryDirectory;
using Kind = RopeScaling::Kind;
using Change = std::function<void(GgufBuilder&)>;

std::string zero_bytes(std::size_t elements) { return std::string(elements * sizeof(float), 0); }

GgufBuilder& add_number(GgufBuilder& file, const std::string& key, float value) {
  return file.value("llama.rope." + key, GgufKind::f32, le(value));
}

struct FileHeading {
  std::string architecture = "llama";
  std::uint32_t blocks = 1;
};

// Heads of 8 elements, and 20 tokens.
CheckpointConfig config_with(const Change& change, const FileHeading& model = {}) {
  GgufBuilder file;
  file.text("general.architecture", model.architecture);
  for (const auto& [key, number] : {std::pair{".context_length", 64U},
                                    {".embedding_length", 16U},
                                    {".block_count", model.blocks},
                                    {".feed_forward_length", 8U},
                                    {".attention.head_count", 2U}})
    file.whole(model.architecture + key, number);
  file.tensor("token_embd.weight", {20, 16}, "F32", zero_bytes(20 * 16));
  change(file);
  const TemporaryDirectory directory;
  return load_config(directory.write("model.gguf", file.file()));
}

RopeScaling rope_with(const Change& change) { return config_with(change).rope_scaling; }

std::string refusal_with(const Change& change) {
  return error_of<ConfigError>([&] { config_with(change); });
}

TEST(GgufConfig, ReadsWhetherTokensAttendToEarlierTokensOnly) {
  const auto with = [](bool causal, std::uint32_t window) {
    return [=](GgufBuilder& file) {
      file.value("llama.attention.causal", GgufKind::boolean, le(static_cast<std::uint8_t>(causal)));
      if (window != 0) file.whole("llama.attention.sliding_window", window);
    };
  };
  EXPECT_TRUE(config_with([](GgufBuilder&) {}).is_causal);
  EXPECT_TRUE(config_with(with(true, 0)).is_causal);
  EXPECT_FALSE(config_with(with(false, 0)).is_causal);
}

// Families list the layers, so the number is rejected before any family does.
TEST(GgufConfig, RefusesMoreBlocksThanAProgramCanHold) {
  const auto refusal_of = [](const FileHeading& model) {
    return error_of<ConfigError>([&] { config_with([](GgufBuilder&) {}, model); });
  };
  EXPECT_EQ(config_with([](GgufBuilder&) {}, {.blocks = 65536}).num_hidden_layers, 65536U);
  for (const std::uint32_t blocks : {65537U, 0xFFFFFFFFU}) {
    EXPECT_CONTAINS(
        refusal_of({.blocks = blocks}),
        fmt::format("block_count must be at most 65536, found {}; convert the model again", blocks));
  }
}

// llama-quantize stores a matrix of one row as a vector.
TEST(GgufConfig, CountsTheRowsOfVectorsAsOne) {
  const auto config_of = [](const std::vector<std::uint64_t>& types,
                            const std::vector<std::uint64_t>& scores) {
    const auto elements = [](const std::vector<std::uint64_t>& shape) {
      return shape.size() == 1 ? shape[0] : shape[0] * shape[1];
    };
    return config_with(
        [&](GgufBuilder& file) {
          file.whole("bert.pooling_type", 4);
          file.tensor("token_types.weight", types, "F32", zero_bytes(elements(types)));
          file.tensor("cls.output.weight", scores, "F32", zero_bytes(elements(scores)));
        },
        {.architecture = "bert"});
  };
  const CheckpointConfig vectors = config_of({16}, {16});
  EXPECT_EQ(vectors.architecture, "BertForSequenceClassification");
  EXPECT_EQ(vectors.type_vocab_size, 1U);
  EXPECT_EQ(vectors.labels.size(), 1U);
  EXPECT_EQ(config_of({1, 16}, {1, 16}), vectors);
  const CheckpointConfig matrices = config_of({2, 16}, {3, 16});
  EXPECT_EQ(matrices.type_vocab_size, 2U);
  EXPECT_EQ(matrices.labels.size(), 3U);
}

// Files of dense models may have the keys of experts, with 0.
TEST(GgufConfig, IsOfADenseModelWithoutExperts) {
  const CheckpointConfig dense = config_with([](GgufBuilder&) {});
  EXPECT_EQ(dense.architecture, "LlamaForCausalLM");
  for (const bool has_used : {true, false}) {
    for (const bool has_count : {true, false}) {
      EXPECT_EQ(config_with([&](GgufBuilder& file) {
                  if (has_count) file.whole("llama.expert_count", 0);
                  if (has_used) file.whole("llama.expert_used_count", 0);
                }),
                dense);
    }
  }
}

TEST(GgufConfig, TreatsARopeFactorWithoutATypeAsLinear) {
  EXPECT_EQ(rope_with([](GgufBuilder&) {}).kind, Kind::none);
  for (const char* key : {"scaling.factor", "scale_linear"}) {
    const RopeScaling scaling = rope_with([&](GgufBuilder& file) { add_number(file, key, 8.0F); });
    EXPECT_EQ(scaling.kind, Kind::linear) << key;
    EXPECT_EQ(scaling.factor, 8.0) << key;
    EXPECT_EQ(rope_with([&](GgufBuilder& file) {
                add_number(file, key, 8.0F).text("llama.rope.scaling.type", "none");
              }).kind,
              Kind::none);
    EXPECT_EQ(rope_with([&](GgufBuilder& file) { add_number(file, key, 0.0F); }).kind, Kind::none) << key;
  }
  EXPECT_EQ(rope_with([](GgufBuilder& file) {
              add_number(add_number(file, "scale_linear", 2.0F), "scaling.factor", 4.0F);
            }).factor,
            4.0);
}

// A factor of cosines and sines equals a factor of frequencies that are otherwise divided by it.
TEST(GgufConfig, HonoursTheFactorOfAttentionInEveryKindOfRope) {
  const RopeScaling plain =
      rope_with([](GgufBuilder& file) { add_number(file, "scaling.attn_factor", 0.5F); });
  EXPECT_EQ(plain.attention_factor, 0.5);
  EXPECT_EQ(plain.short_factor, std::vector<double>(4, 1.0));
  const RopeScaling linear = rope_with([](GgufBuilder& file) {
    add_number(add_number(file, "scaling.attn_factor", 0.5F), "scaling.factor", 4.0F);
  });
  EXPECT_EQ(linear.attention_factor, 0.5);
  EXPECT_EQ(linear.long_factor, std::vector<double>(4, 4.0));
  const Change yarn = [](GgufBuilder& file) {
    add_number(file, "scaling.factor", 4.0F)
        .text("llama.rope.scaling.type", "yarn")
        .whole("llama.rope.scaling.original_context_length", 16);
  };
  const double usual = 0.1 * std::log(4.0) + 1.0;
  EXPECT_DOUBLE_EQ(rope_with(yarn).attention_factor, usual);
  EXPECT_DOUBLE_EQ(rope_with([&](GgufBuilder& file) {
                     yarn(file);
                     add_number(file, "scaling.attn_factor", 0.5F);
                   }).attention_factor,
                   0.5 * usual);
}

TEST(GgufConfig, MultipliesFactorsOfFrequenciesByALinearOne) {
  const RopeScaling scaling = rope_with([](GgufBuilder& file) {
    add_number(file, "scaling.factor", 2.0F)
        .tensor("rope_freqs.weight", {4}, "F32", test::bytes_of(std::vector<float>{1, 2, 3, 4}));
  });
  EXPECT_EQ(scaling.kind, Kind::longrope);
  EXPECT_EQ(scaling.short_factor, (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(scaling.long_factor, scaling.short_factor);
  EXPECT_EQ(scaling.attention_factor, 1.0);
}

TEST(GgufConfig, ReadsHowManyElementsOfAHeadAreRotated) {
  EXPECT_EQ(rotary_dim(config_with([](GgufBuilder&) {})), 8U);
  EXPECT_EQ(rotary_dim(config_with([](GgufBuilder& file) { file.whole("llama.rope.dimension_count", 6); })),
            6U);
}

TEST(GgufConfig, RefusesToRotateMoreElementsThanHeadsHave) {
  // A factor of attention alone needs a divisor for every pair of elements.
  for (const bool has_factor : {false, true}) {
    EXPECT_CONTAINS(refusal_with([&](GgufBuilder& file) {
                      file.whole("llama.rope.dimension_count", 65538);
                      if (has_factor) add_number(file, "scaling.attn_factor", 0.5F);
                    }),
                    "rope.dimension_count, or else the size of a head, is 65538, expected at most 65536");
  }
}

TEST(GgufConfig, RejectsFrequencyFactorsCombinedWithYarn) {
  for (const char* const tensor :
       {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"}) {
    EXPECT_CONTAINS(refusal_with([&](GgufBuilder& file) {
                      add_number(file, "scaling.factor", 2.0F)
                          .text("llama.rope.scaling.type", "yarn")
                          .tensor(tensor, {4}, "F32", test::bytes_of(std::vector<float>{1, 2, 3, 4}));
                    }),
                    std::string("expected no tensor ") + tensor + " with rope.scaling.type yarn");
  }
}

TEST(GgufConfig, RejectsUnsupportedRopeSettings) {
  const std::string unknown = "is not supported for the architecture llama";
  for (const char* key : {"scaling.alpha", "freq_base_swa", "freq_base_per_layer", "scaling.something_new"}) {
    EXPECT_CONTAINS(refusal_with([&](GgufBuilder& file) { add_number(file, key, 3.0F); }),
                    std::string("rope.") + key + " " + unknown);
  }
  for (const char* key : {"scaling.yarn_ext_factor", "scaling.yarn_attn_factor"}) {
    const Change change = [&](GgufBuilder& file) { add_number(file, key, 0.5F); };
    EXPECT_EQ(rope_with(change).kind, Kind::none) << key;  // YaRN's field without YaRN
    EXPECT_CONTAINS(refusal_with([&](GgufBuilder& file) {
                      change(file);
                      file.text("llama.rope.scaling.type", "yarn");
                    }),
                    std::string("rope.") + key + " is 0.5, expected 1");
  }
  EXPECT_CONTAINS(refusal_with([](GgufBuilder& file) { file.text("llama.rope.scaling.type", "cubic"); }),
                  "rope_scaling of type \"cubic\" is not supported");
  // Keys that do not change the computation are ignored.
  EXPECT_EQ(rope_with([](GgufBuilder& file) {
              file.value("llama.rope.scaling.finetuned", GgufKind::boolean, "\1")
                  .numbers<std::int32_t>("llama.rope.dimension_sections", GgufKind::i32, {1, 1, 2, 0});
              add_number(file, "freq_base_swa", 10000.0F);
            }).kind,
            Kind::none);
}

TEST(GgufConfig, OmitsEndsOutsideTheVocabulary) {
  const auto ends_with = [](std::uint32_t eos, const std::vector<std::string>& tokens) {
    return config_with([&](GgufBuilder& file) {
             file.whole("tokenizer.ggml.eos_token_id", eos).whole("tokenizer.ggml.eot_token_id", 1);
             file.value("tokenizer.ggml.eom_token_id", GgufKind::i32, le(-1));
             if (!tokens.empty()) file.texts("tokenizer.ggml.tokens", tokens);
           })
        .eos_token_ids;
  };
  EXPECT_EQ(ends_with(19, {}), (std::vector<TokenId>{19, 1}));
  EXPECT_EQ(ends_with(20, {}), std::vector<TokenId>{1});
  EXPECT_EQ(ends_with(3, {"a", "b", "c"}), std::vector<TokenId>{1});
  EXPECT_EQ(ends_with(0xFFFFFFFF, {"a", "b", "c"}), std::vector<TokenId>{1});
}

}  // namespace
}  // namespace tp
