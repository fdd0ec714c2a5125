#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/llama.h"
#include "tests/reference/random.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tp {
namespace {

using reference::Fixture;
using reference::Random;
using test::ModelUnderTest;

// Logits of synthetic models are near 1, and their relative float32 noise is 1e-6 to 1e-5. It grows with
// layers and with the angles' rounding.
constexpr double kTolerance = 1e-4;

// A model for at least `ranks` ranks, with sizes that rarely divide evenly.
CheckpointConfig random_config(Random& random, std::size_t ranks) {
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.num_key_value_heads = random.integer(1, 4);
  const std::size_t min = (ranks + config.num_key_value_heads - 1) / config.num_key_value_heads;
  config.num_attention_heads = config.num_key_value_heads * random.integer(min, min + 3);
  config.head_dim = 2 * random.integer(1, 9);
  config.hidden_size = random.integer(8, 70);
  config.intermediate_size = random.integer(1, 150);
  config.num_hidden_layers = random.integer(1, 3);
  config.vocab_size = random.integer(ranks, 120);
  config.max_position_embeddings = 128;
  config.rms_norm_eps = 1e-5;
  config.rope_theta = random.coin() ? 10000.0 : 500000.0;
  config.attention_bias = random.coin();
  config.mlp_bias = random.coin();
  config.tie_word_embeddings = random.coin();
  return config;
}

std::vector<TokenId> random_tokens(Random& random, std::size_t count, std::size_t vocab_size) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.integer(0, vocab_size - 1));
  return tokens;
}

TEST(Model, OverRanksEqualsTheNaiveDecoderForRandomShapes) {
  Communicator& comm = test::world();
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    Random random(seed);
    const CheckpointConfig config = random_config(random, comm.size());
    SCOPED_TRACE(
        fmt::format("seed {}: {} heads, {} kv heads of {}, hidden {}, intermediate {}, vocabulary {}", seed,
                    config.num_attention_heads, config.num_key_value_heads, config.head_dim,
                    config.hidden_size, config.intermediate_size, config.vocab_size));
    const SyntheticWeights source(DType::f32, seed);
    const std::vector<TokenId> tokens = random_tokens(random, random.integer(1, 40), config.vocab_size);
    ModelUnderTest decoder(
        comm, config, source,
        {.length = 40, .chunk = random.integer(1, 40), .block_size = random.integer(1, 20)});
    const std::vector<float> logits = decoder.append(tokens);
    EXPECT_EQ(logits.size(), tokens.size() * decoder.local_vocab().size());
    EXPECT_LE(decoder.difference(logits, reference::Llama(config, source).logits(tokens)), kTolerance);
  }
}

// Layers of one model may have different angles or none, and see different tokens.
TEST(Model, GivesEveryLayerTheRopeAndTheMaskOfItsSpec) {
  Communicator& comm = test::world();
  constexpr std::size_t kTokens = 40;
  const std::vector<reference::LayerAttention> layers = {
      {100.0, {}},
      {0.0, {.window = 5}},
      {5000.0, {.causal = false}},
      {100.0, {.causal = false, .window = 4, .dilation = 3}},
  };
  Random random(11);
  CheckpointConfig config = random_config(random, comm.size());
  config.num_hidden_layers = layers.size();
  ModelSpec spec = make_spec(config);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const auto& [theta, pattern] = layers[layer];
    auto& attention = std::get<AttentionSpec>(spec.blocks[layer].attention);
    attention.rope.value().theta = theta;
    if (theta == 0.0) attention.rope.reset();
    attention.pattern = {.causal = pattern.causal, .window = pattern.window, .dilation = pattern.dilation};
  }
  EXPECT_EQ(distinct_ropes(spec).size(), 2U);
  const SyntheticWeights source(DType::f32, 11);
  const std::vector<TokenId> tokens = random_tokens(random, kTokens, config.vocab_size);
  ModelUnderTest decoder(comm, spec, source, {.length = kTokens, .chunk = kTokens, .block_size = 8});
  EXPECT_LE(
      decoder.difference(decoder.append(tokens), reference::Llama(config, source, layers).logits(tokens)),
      kTolerance);
}

// Runs models like `bench` does.
TEST(Model, GivesSoundLogitsOfSyntheticWeightsForEveryFamily) {
  Communicator& comm = test::world();
  for (const Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const CheckpointConfig config = load_config(fixture.folder);
    if (make_spec(config).bidirectional) continue;  // encoders have a different cache
    const SyntheticWeights source(DType::bf16, 1);
    ModelUnderTest decoder(comm, config, source, {.length = fixture.prompt.size(), .chunk = 64});
    const std::vector<float> logits = decoder.append(fixture.prompt);
    double squares = 0.0;
    for (const float logit : logits) squares += static_cast<double>(logit) * logit;
    const double deviation = std::sqrt(squares / static_cast<double>(logits.size()));
    EXPECT_GT(deviation, 0.1) << fixture.name;
    EXPECT_LT(deviation, 10.0) << fixture.name;
  }
}

TEST(Model, RunsTwoAllReducesPerLayerAndOneForTheEmbedding) {
  Communicator& comm = test::world();
  Random random(1);
  CheckpointConfig config = random_config(random, comm.size());
  for (const std::size_t layers : {1U, 2U, 5U}) {
    config.num_hidden_layers = layers;
    const SyntheticWeights source(DType::f32, 1);
    ModelUnderTest decoder(comm, config, source, {.length = 64, .chunk = 64});
    for (const std::size_t tokens : {1U, 7U, 40U}) {
      comm.stats() = CommStats{};
      decoder.append(random_tokens(random, tokens, config.vocab_size));
      EXPECT_EQ(comm.stats().all_reduce.calls, 2 * layers + 1);
      EXPECT_EQ(comm.stats().all_reduce.bytes,
                (2 * layers + 1) * tokens * config.hidden_size * sizeof(float));
      EXPECT_EQ(comm.stats().gather.calls, 0U);
      EXPECT_EQ(comm.stats().broadcast.calls, 0U);
    }
  }
}

TEST(Model, GivesTheSameForEveryPrefillChunk) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const CheckpointConfig config = load_config(fixture.folder);
  const auto source = SafetensorsCheckpoint::open(fixture.folder);
  for (const std::size_t chunk : {1U, 2U, 3U, 7U, 16U, 64U, 512U}) {
    ModelUnderTest decoder(comm, config, *source, {.length = 128, .chunk = chunk, .block_size = 8});
    const std::vector<float> logits = decoder.append(fixture.prompt);
    EXPECT_LE(decoder.difference(logits, fixture.rows), kTolerance) << "chunks of " << chunk;
    EXPECT_EQ(decoder.greedy(fixture.prompt, fixture.greedy.size()), fixture.greedy) << "chunks of " << chunk;
  }
}

// Sequences in one batch do not see each other.
TEST(Model, ComputesARaggedBatchAsEachSequenceByItself) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-12q3kv");
  const ModelSpec spec = make_spec(load_config(fixture.folder));
  const auto source = SafetensorsCheckpoint::open(fixture.folder);
  const TpRank tp{comm.rank(), comm.size()};
  ModelUnderTest of_one(comm, spec, *source, {});
  const std::vector<float> alone = of_one.append(fixture.prompt);
  EXPECT_LE(of_one.difference(alone, fixture.rows), kTolerance);
  const Model decoder(spec, *source, tp);
  const KvCache cache(decoder.kv_layouts(KvType::f32, 8), 40);
  Workspace workspace(decoder.workspace_floats({64, 64, KvType::f32, 8, 8}));
  const std::vector<std::vector<std::int32_t>> tables = {
      {9, 3, 11, 0, 20}, {7, 8, 1, 30, 31}, {2, 39, 12, 13, 14}};

  // Sequence s has `before[s]` tokens of the prompt in the cache and takes the next `now[s]`.
  const std::size_t before[] = {0, 29, 10};
  const std::size_t now[] = {17, 1, 12};
  const auto run = [&](const std::size_t(&begin)[3], const std::size_t(&count)[3]) {
    Batch batch;
    for (std::size_t s = 0; s < 3; ++s) {
      if (count[s] == 0) continue;
      batch.spans[0].push_back({batch.tokens.size(), count[s], begin[s], tables[s]});
      for (std::size_t position = begin[s]; position < begin[s] + count[s]; ++position) {
        batch.output_rows.push_back(batch.tokens.size());
        batch.positions.push_back(position);
        batch.tokens.push_back(fixture.prompt[position]);
      }
    }
    std::vector<std::size_t> positions = batch.positions;
    double largest = 0.0;
    decoder.forward(comm, batch, cache, workspace, [&](std::size_t first, TensorView<const float> rows) {
      for (std::size_t row = 0; row < rows.rows(); ++row) {
        for (std::size_t i = 0; i < rows.columns(); ++i) {
          const float expected = alone[positions[first + row] * rows.columns() + i];
          largest = std::max(largest, static_cast<double>(std::abs(rows(row, i) - expected)));
        }
      }
    });
    return largest;
  };
  EXPECT_LE(run({0, 0, 0}, {0, 29, 10}), kTolerance);
  EXPECT_LE(run({before[0], before[1], before[2]}, {now[0], now[1], now[2]}), kTolerance);
}

TEST(Model, GivesLogitsInGroupsOfAtMostKLogitRows) {
  Communicator& comm = test::world();
  Random random(5);
  const CheckpointConfig config = random_config(random, comm.size());
  const SyntheticWeights source(DType::f32, 5);
  ModelUnderTest decoder(comm, config, source, {.length = 128, .chunk = 128});
  const std::vector<TokenId> tokens = random_tokens(random, 2 * Model::kLogitRows + 3, config.vocab_size);
  const std::vector<float> logits = decoder.append(tokens);
  EXPECT_EQ(logits.size(), tokens.size() * decoder.local_vocab().size());
  EXPECT_LE(decoder.difference(logits, reference::Llama(config, source).logits(tokens)), kTolerance);
}

TEST(Model, ReadsEveryParameterThatItCountsOnce) {
  Communicator& comm = test::world();
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Random random(seed);
    const CheckpointConfig config = random_config(random, comm.size());
    const SyntheticWeights source(DType::f32, seed);
    const ModelSpec spec = make_spec(config);
    const TpRank tp{comm.rank(), comm.size()};
    const Model decoder(spec, source, tp);
    // Stored as float32, each element read once; packed, rows are filled up to panels.
    EXPECT_EQ(source.bytes_read(), decoder.parameters() * sizeof(float));
    EXPECT_GE(decoder.weight_bytes(), source.bytes_read());
  }
}

// Compares the model's memory with the shape that `inspect` and the memory check use.
TEST(Model, UsesTheMemoryOfItsShape) {
  Communicator& comm = test::world();
  constexpr std::size_t kLength = 64;
  // Several ranks wait for each other in each step, so they run fewer steps.
  const std::vector<std::size_t> chunks =
      comm.size() == 1 ? std::vector<std::size_t>{1, 5, 14, 40} : std::vector<std::size_t>{5, 14};
  for (const Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const CheckpointConfig config = load_config(fixture.folder);
    if (comm.size() > config.num_attention_heads) continue;
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    for (const auto weights : {std::optional<WeightType>(), std::optional(WeightType::int4)}) {
      for (const std::size_t chunk : chunks) {
        SCOPED_TRACE(fmt::format("{}, steps of {}", fixture.name, chunk));
        ModelUnderTest decoder(comm, config, *source,
                               {.length = kLength, .chunk = chunk, .block_size = 8, .weights = weights});
        const std::size_t before = source->bytes_read();
        const Model shape = Model::shape_of(decoder.spec(), *source, {comm.rank(), comm.size()}, weights);
        EXPECT_EQ(source->bytes_read(), before);
        EXPECT_EQ(shape.weight_bytes(), decoder.model().weight_bytes());
        EXPECT_EQ(shape.parameters(), decoder.model().parameters());
        const CacheGroups groups = CacheGroups::of(decoder.spec(), comm.size());
        EXPECT_EQ(block_bytes(shape.kv_layouts(KvType::bf16, 8), groups),
                  block_bytes(decoder.model().kv_layouts(KvType::bf16, 8), groups));
        EXPECT_EQ(shape.workspace_floats(decoder.limits()) * sizeof(float),
                  decoder.workspace().capacity_bytes());

        const std::vector<TokenId> tokens(kLength, 1);  // equal tokens use the same experts
        const std::size_t max = decoder.spec().recomputes ? kLength : chunk;  // tokens of the largest step
        for (std::size_t step = 1; step <= max; ++step) {
          decoder.restart();
          decoder.append(std::span(tokens).first(step));
        }
        const std::size_t peak = decoder.workspace().peak_bytes();
        EXPECT_LE(peak, decoder.workspace().capacity_bytes());
        // The choice of experts need not be the worst case, because all chosen experts may be small.
        if (config.num_experts == 0) {
          EXPECT_EQ(peak, decoder.workspace().capacity_bytes());
        }
      }
    }
  }
}

std::size_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) << 10;
}

// 12,288 tokens: their scores would be 12,288^2 floats, 600 MB a head.
TEST(Model, ComputesALongPromptInMemoryThatGrowsLinearly) {
  Communicator& comm = test::world();
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.num_attention_heads = config.num_key_value_heads = comm.size();
  config.head_dim = 4;
  config.hidden_size = 16;
  config.intermediate_size = 16;
  config.num_hidden_layers = 1;
  config.vocab_size = 32;
  config.max_position_embeddings = 12288;
  const SyntheticWeights source(DType::f32, 1);
  ModelUnderTest decoder(comm, config, source, {.length = 12288, .chunk = 256, .block_size = 32});
  Random random(1);
  const std::vector<TokenId> tokens = random_tokens(random, 12288, config.vocab_size);
  const std::size_t before = peak_resident_bytes();
  decoder.append_silently(std::span(tokens).first(12287));
  const std::vector<float> last = decoder.append(std::span(tokens).last(1));
  EXPECT_EQ(last.size(), decoder.local_vocab().size());
  for (const float logit : last) EXPECT_TRUE(std::isfinite(logit));
  // The cache is 12288 * 2 * 4 floats, 400 KB; the rest is MPI's and the allocator's.
  EXPECT_LT(peak_resident_bytes() - before, std::size_t{24} << 20);
  EXPECT_LE(decoder.workspace().peak_bytes(), decoder.workspace().capacity_bytes());
}

}  // namespace
}  // namespace tp
