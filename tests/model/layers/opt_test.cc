// OPT's variants against a naive decoder, because the fixture covers only one.
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"
#include "tests/reference/stored_weights.h"

#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using test::ModelUnderTest;

constexpr double kOptTolerance = 1e-4;  // as in decoder_test.cc

// Follows transformers' modeling_opt: the whole sequence at once, in double precision.
class NaiveOpt {
 public:
  NaiveOpt(const CheckpointConfig& config, const WeightSource& weights)
      : config_(config), projects_(config.embedding_size != config.hidden_size), weights_(weights) {
    if (config.embedding_size == 0) projects_ = false;
  }

  Matrix logits(std::span<const TokenId> tokens) {
    Matrix x = embed(tokens);
    for (std::size_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      const std::string block = fmt::format("{}layers.{}.", kBody, layer);
      half(x, block + "self_attn_layer_norm",
           [&](const Matrix& in) { return attention(in, block + "self_attn."); });
      half(x, block + "final_layer_norm", [&](const Matrix& in) {
        const Matrix up = weights_.linear(in, block + "fc1", config_.intermediate_size, true);
        return weights_.linear(reference::activate(kernels::Activation::relu, up), block + "fc2",
                               config_.hidden_size, true);
      });
    }
    if (config_.do_layer_norm_before) x = norm(x, kBody + "final_layer_norm");
    if (projects_) x = weights_.linear(x, kBody + "project_out", config_.embedding_size, false);
    return matmul(x, weights_.matrix(kBody + "embed_tokens.weight", config_.vocab_size, x.columns));
  }

 private:
  Matrix embed(std::span<const TokenId> tokens) {
    const std::size_t size = projects_ ? config_.embedding_size : config_.hidden_size;
    const Matrix& table = weights_.matrix(kBody + "embed_tokens.weight", config_.vocab_size, size);
    Matrix x(tokens.size(), size);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      for (std::size_t i = 0; i < size; ++i) x(t, i) = table(static_cast<std::size_t>(tokens[t]), i);
    }
    if (projects_) x = weights_.linear(x, kBody + "project_in", config_.hidden_size, false);
    const Matrix& positions = weights_.matrix(kBody + "embed_positions.weight",
                                              config_.max_position_embeddings + 2, config_.hidden_size);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      for (std::size_t i = 0; i < x.columns; ++i) x(t, i) += positions(t + 2, i);
    }
    return x;
  }

  Matrix norm(const Matrix& x, const std::string& layer) {
    return layer_norm(x, weights_.vector(layer + ".weight", x.columns),
                      weights_.vector(layer + ".bias", x.columns), config_.layer_norm_eps);
  }

  template <class Part>
  void half(Matrix& x, const std::string& norm_layer, const Part& part) {
    reference::add(part(config_.do_layer_norm_before ? norm(x, norm_layer) : x), x);
    if (!config_.do_layer_norm_before) x = norm(x, norm_layer);
  }

  Matrix attention(const Matrix& x, const std::string& prefix) {
    const std::size_t size = config_.hidden_size;
    std::vector<std::size_t> kv_of_head(config_.num_attention_heads);
    std::iota(kv_of_head.begin(), kv_of_head.end(), 0);
    const Matrix out = reference::attention(
        weights_.linear(x, prefix + "q_proj", size, true), weights_.linear(x, prefix + "k_proj", size, true),
        weights_.linear(x, prefix + "v_proj", size, true), kv_of_head, config_.head_dim, {},
        1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
    return weights_.linear(out, prefix + "out_proj", size, true);
  }

  const std::string kBody = "model.decoder.";
  const CheckpointConfig& config_;
  bool projects_;
  reference::StoredWeights weights_;
};

CheckpointConfig random_opt(Random& random, std::size_t ranks) {
  CheckpointConfig config = family_of("OPTForCausalLM").defaults;
  config.architecture = "OPTForCausalLM";
  config.do_layer_norm_before = random.coin();
  config.num_attention_heads = config.num_key_value_heads = ranks + random.integer(0, 3);
  config.head_dim = 2 * random.integer(1, 9);
  config.hidden_size = config.num_attention_heads * config.head_dim;
  config.embedding_size = random.coin() ? config.hidden_size : random.integer(4, 70);
  config.intermediate_size = random.integer(1, 150);
  config.num_hidden_layers = random.integer(1, 3);
  config.vocab_size = random.integer(ranks, 120);
  config.max_position_embeddings = random.integer(40, 60);
  return config;
}

TEST(Opt, OverRanksEqualsTheNaiveDecoderInAllItsVariants) {
  Communicator& comm = test::world();
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const CheckpointConfig config = random_opt(random, comm.size());
    SCOPED_TRACE(fmt::format("seed {}: norm before {}, token vectors of {}, hidden states of {}", seed,
                             config.do_layer_norm_before, config.embedding_size, config.hidden_size));
    const SyntheticWeights source(DType::f32, seed);
    std::vector<TokenId> tokens(random.integer(1, 40));
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.integer(0, config.vocab_size - 1));
    ModelUnderTest decoder(
        comm, config, source,
        {.length = 40, .chunk = random.integer(1, 40), .block_size = random.integer(1, 20)});
    EXPECT_LE(decoder.difference(decoder.append(tokens), NaiveOpt(config, source).logits(tokens)),
              kOptTolerance);
  }
}

// Checks the naive decoder with the fixture.
TEST(Opt, FixtureMatchesTheNaiveDecoder) {
  if (test::world().size() != 1) GTEST_SKIP() << "no ranks in it";
  for (const reference::Fixture& fixture : reference::fixtures_of({"OPTForCausalLM"})) {
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    const CheckpointConfig config = load_config(fixture.folder);
    const Matrix logits = NaiveOpt(config, *source).logits(fixture.prompt);
    EXPECT_LE(fixture.rows.difference(std::vector<float>(logits.values.begin(), logits.values.end())), 1e-4)
        << fixture.name;
  }
}

// The variant of facebook/opt-350m.
TEST(Opt, ReadsTheVariantThatNormsTheStreamAndProjectsTokenVectors) {
  const CheckpointConfig config = parse_config(
      R"({"architectures": ["OPTForCausalLM"], "hidden_size": 1024, "word_embed_proj_dim": 512,
          "ffn_dim": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 50272,
          "max_position_embeddings": 2048, "do_layer_norm_before": false, "_remove_final_layer_norm": false})",
      "config.json");
  const ModelSpec spec = make_spec(config);
  EXPECT_EQ(embedding_size(spec), 512U);
  EXPECT_FALSE(spec.final_norm);
  EXPECT_EQ(spec.blocks.front().wiring, BlockSpec::Wiring::post_norm);
  EXPECT_EQ(count_parameters(spec), 331196416U);
}

}  // namespace
}  // namespace tp
