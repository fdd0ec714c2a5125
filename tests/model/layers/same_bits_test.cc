// Results that do not depend on how the work is divided: for given ranks, a row's arithmetic is the same in
// any chunk, beside any other rows and on any number of threads. This holds for the types that the active
// instruction set computes by one rule for any number of rows; others round large steps to bf16.
#include "model/config/config.h"
#include "model/kernels/simd/isa.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/random.h"

#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

using reference::Fixture;
using test::ModelUnderTest;

std::vector<WeightType> types_of_one_rule() {
  switch (kernels::active_isa()) {
    case kernels::Isa::avx2:
    case kernels::Isa::avx_vnni:
    case kernels::Isa::avx512:
    case kernels::Isa::avx512_vnni:
    case kernels::Isa::neon:
    case kernels::Isa::dotprod:
      return {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::int8, WeightType::int4};
    case kernels::Isa::avx512_bf16:
    case kernels::Isa::i8mm:
      return {WeightType::f32, WeightType::f16, WeightType::int8, WeightType::int4};
    case kernels::Isa::amx:
      return {WeightType::f32};
    default:
      return {WeightType::int8, WeightType::int4};  // OpenBLAS multiplies many rows of the others
  }
}

class Threads {
 public:
  explicit Threads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

struct Division {
  std::size_t chunk;
  int threads;
};

// The logits of every position, as bits.
std::vector<std::uint32_t> bits_of(const CheckpointConfig& config, const WeightSource& source,
                                   std::span<const TokenId> tokens, ModelUnderTest::Options options,
                                   const Division& division) {
  const Threads threads(division.threads);
  options.length = tokens.size();
  options.chunk = division.chunk;
  ModelUnderTest decoder(test::world(), config, source, options);
  const std::vector<float> logits = decoder.append(tokens);
  std::vector<std::uint32_t> bits(logits.size());
  std::memcpy(bits.data(), logits.data(), logits.size() * sizeof(float));
  return bits;
}

TEST(SameBits, InAnyChunksAndOnAnyNumberOfThreads) {
  for (const Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const CheckpointConfig config = load_config(fixture.folder);
    if (test::world().size() > config.num_attention_heads) continue;
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    for (const WeightType type : types_of_one_rule()) {
      const ModelUnderTest::Options options{.kv_type = KvType::bf16, .weights = type};
      const auto whole = bits_of(config, *source, fixture.prompt, options, {fixture.prompt.size(), 1});
      for (const Division& division : {Division{1, 1}, Division{7, 3}}) {
        EXPECT_TRUE(bits_of(config, *source, fixture.prompt, options, division) == whole)
            << fmt::format("{}, {}, chunks of {}, {} threads", fixture.name, name_of(type), division.chunk,
                           division.threads);
      }
    }
  }
}

// Long enough for a single tile's context to be split among threads.
TEST(SameBits, ForLongContextsOnAnyNumberOfThreads) {
  constexpr std::size_t kLength = 2100;
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.num_attention_heads = 4;
  config.num_key_value_heads = 1;
  config.head_dim = 32;
  config.hidden_size = 64;
  config.intermediate_size = 64;
  config.num_hidden_layers = 2;
  config.vocab_size = 64;
  config.max_position_embeddings = kLength;
  const SyntheticWeights source(DType::f32, 3);
  reference::Random random(7);
  std::vector<TokenId> tokens(kLength);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.integer(0, config.vocab_size - 1));
  for (const KvType kv_type : {KvType::f32, KvType::bf16, KvType::int8}) {
    const ModelUnderTest::Options options{
        .block_size = 32, .kv_type = kv_type, .weights = types_of_one_rule().front()};
    const auto one = bits_of(config, source, tokens, options, {64, 1});
    EXPECT_TRUE(bits_of(config, source, tokens, options, {15, 5}) == one) << name_of(kv_type);
    EXPECT_TRUE(bits_of(config, source, tokens, options, {1, 4}) == one) << name_of(kv_type);
  }
}

}  // namespace
}  // namespace tp
