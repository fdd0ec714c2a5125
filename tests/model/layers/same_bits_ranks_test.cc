// With ModelSpec::same_bits, a model's logits have the same bits on any number of ranks and threads, and in
// any chunks.
#include "model/config/config.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/exchange/mpi_call.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/mixed_gguf.h"
#include "tests/model/weights/quantized_model.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/random.h"
#include "tp/mpi.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

using reference::Fixture;
using test::ModelUnderTest;

// The first ranks of a test.
class FirstRanks {
 public:
  explicit FirstRanks(std::size_t size) {
    const std::size_t rank = test::world().rank();
    TP_MPI(MPI_Comm_split(test::world().handle(), rank < size ? 0 : MPI_UNDEFINED, static_cast<int>(rank),
                          &handle_));
    if (handle_ != MPI_COMM_NULL) comm_.emplace(handle_);
  }
  ~FirstRanks() {
    comm_.reset();
    if (handle_ != MPI_COMM_NULL) MPI_Comm_free(&handle_);
  }
  FirstRanks(const FirstRanks&) = delete;
  FirstRanks& operator=(const FirstRanks&) = delete;

  // Returns null on the other ranks.
  Communicator* comm() { return comm_ ? &*comm_ : nullptr; }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
  std::optional<Communicator> comm_;
};

// Groups of every size. Each is created at its first use, because creating groups takes longer than a toy
// model's forward pass. Collective.
class Groups {
 public:
  Communicator* of(std::size_t size) {
    if (groups_.size() < size) groups_.resize(size);
    std::unique_ptr<FirstRanks>& group = groups_[size - 1];
    if (group == nullptr) group = std::make_unique<FirstRanks>(size);
    return group->comm();
  }

 private:
  std::vector<std::unique_ptr<FirstRanks>> groups_;
};

struct Division {
  std::size_t ranks;
  std::size_t chunk;
  int threads;
  bool kv_slices;  // ranks keep one copy of the cache
};

struct TestedModel {
  ModelSpec spec;
  const WeightSource& source;
  std::span<const TokenId> tokens;
  std::optional<WeightType> type;  // none: as stored
  KvType kv_type = KvType::bf16;
};

// This rank's logits of every position, and their columns among all logits.
struct OwnLogits {
  Range columns;
  std::vector<float> rows;  // [tokens, columns.size()]
};

OwnLogits logits_of(Communicator& comm, const TestedModel& model, const Division& division) {
  omp_set_num_threads(division.threads);
  ModelUnderTest decoder(comm, model.spec, model.source,
                         {.length = model.tokens.size(),
                          .chunk = std::min(division.chunk, model.tokens.size()),
                          .kv_type = model.kv_type,
                          .weights = model.type,
                          .kv_slices = division.kv_slices});
  OwnLogits logits{decoder.local_vocab(), decoder.append(model.tokens)};
  omp_set_num_threads(1);
  return logits;
}

// Returns the number of `part`'s elements whose bits differ from the whole's.
std::size_t different_bits(const OwnLogits& part, const OwnLogits& whole, std::size_t tokens) {
  std::size_t different = 0;
  for (std::size_t row = 0; row < tokens; ++row) {
    for (std::size_t i = 0; i < part.columns.size(); ++i) {
      const float& one = part.rows[row * part.columns.size() + i];
      const float& other = whole.rows[row * whole.columns.size() + part.columns.begin + i];
      different += std::memcmp(&one, &other, sizeof(float)) == 0 ? 0 : 1;
    }
  }
  return different;
}

// TP_SAME_BITS=all runs every combination for every fixture, which takes some minutes.
bool runs_all() {
  const char* const value = std::getenv("TP_SAME_BITS");
  return value != nullptr && std::string_view(value) == "all";
}

// Returns some numbers of ranks up to `max`, chunks and threads, with private and with shared caches, or all
// combinations.
std::vector<Division> divisions(std::size_t max) {
  if (!runs_all()) {
    return {{1, 7, 2, false}, {2, 512, 3, true},    {3, 1, 1, false},
            {3, 7, 3, true},  {max, 512, 1, false}, {max, 1, 2, true}};
  }
  std::vector<Division> all;
  for (std::size_t ranks = 1; ranks <= max; ++ranks) {
    for (const std::size_t chunk : {1U, 7U, 512U}) {
      for (const int threads : {1, 2, 3}) {
        all.push_back({ranks, chunk, threads, false});
        if (ranks > 1) all.push_back({ranks, chunk, threads, true});
      }
    }
  }
  return all;
}

void expect_same_bits(Groups& groups, const TestedModel& model, std::size_t max, const std::string& name) {
  Communicator self(MPI_COMM_SELF);
  const OwnLogits whole = logits_of(self, model, {1, 512, 1, false});
  for (const Division& division : divisions(max)) {
    if (division.ranks > max) continue;
    Communicator* const comm = groups.of(division.ranks);
    if (comm == nullptr) continue;
    const OwnLogits part = logits_of(*comm, model, division);
    EXPECT_EQ(different_bits(part, whole, model.tokens.size()), 0U)
        << fmt::format("{}, {}, {} ranks, chunks of {}, {} threads, {} caches", name,
                       model.type ? name_of(*model.type) : "as stored", division.ranks, division.chunk,
                       division.threads, division.kv_slices ? "shared" : "private");
  }
}

constexpr WeightType kTypes[] = {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::int8,
                                 WeightType::int4};

// Layers may have different numbers of heads, and each rank needs one in each layer.
std::size_t max_ranks(const ModelSpec& spec) {
  std::size_t max = std::min(leaf_heads(spec), test::world().size());
  for (const BlockSpec& block : spec.blocks) {
    if (const auto* const attention = std::get_if<AttentionSpec>(&block.attention))
      max = std::min(max, attention->num_attention_heads);
  }
  return max;
}

TEST(SameBits, OnAnyNumberOfRanks) {
  Groups groups;
  std::size_t index = 0;
  std::size_t divided = 0;  // fixtures whose last block has more than one leaf
  for (const Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const auto source = SafetensorsCheckpoint::open(fixture.folder);
    ModelSpec spec = make_spec(load_config(fixture.folder));
    spec.same_bits = true;
    const std::size_t max = max_ranks(spec);
    const std::size_t columns = intermediate_size(spec.blocks.back().feed_forward);
    divided += columns / leaf_of(columns, leaf_heads(spec)) >= 2 ? 1 : 0;
    // Each fixture runs in one type, a few in all types.
    for (std::size_t type = 0; type < std::size(kTypes); ++type) {
      if (type != index % std::size(kTypes) && index % 7 != 0 && !runs_all()) continue;
      constexpr KvType kKvTypes[] = {KvType::f32, KvType::bf16, KvType::int8};
      expect_same_bits(groups,
                       {spec, *source, fixture.prompt, kTypes[type], kKvTypes[index % std::size(kKvTypes)]},
                       max, fixture.name);
    }
    ++index;
  }
  EXPECT_GT(2 * divided, index) << "one rank has all leaves of most fixtures";
}

// Contexts that are split among threads, and a rank's heads that share a KV head in different numbers.
TEST(SameBits, ForLongContextsOnAnyNumberOfRanks) {
  Groups groups;
  constexpr std::size_t kLength = 640;
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.num_attention_heads = 8;
  config.num_key_value_heads = 2;
  config.head_dim = 16;
  config.hidden_size = 64;
  config.intermediate_size = 300;  // the last leaf is cut short
  config.num_hidden_layers = 2;
  config.vocab_size = 64;
  config.max_position_embeddings = kLength;
  ModelSpec spec = make_spec(config);
  spec.same_bits = true;
  reference::Random random(7);
  std::vector<TokenId> tokens(kLength);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.integer(0, config.vocab_size - 1));
  expect_same_bits(groups, {spec, SyntheticWeights(DType::f32, 3), tokens, WeightType::int8, KvType::f32},
                   std::min<std::size_t>(8, test::world().size()), "long context");
}

// Stored groups of 32 are kept only if leaves are whole groups.
TEST(SameBits, ForGgufModelsAsStored) {
  Groups groups;
  for (const Fixture& fixture : reference::gguf_fixtures()) {
    const auto source = GgufCheckpoint::open(fixture.folder / "model.gguf");
    ModelSpec spec = make_spec(load_config(fixture.folder));
    spec.same_bits = true;
    expect_same_bits(groups, {spec, *source, fixture.prompt, std::nullopt},
                     std::min(leaf_heads(spec), test::world().size()), fixture.name);
  }
}

// Types whose elements are codes, in super-blocks that ranks cut.
TEST(SameBits, ForGgufModelsWithCodes) {
  Groups groups;
  constexpr std::array<std::string_view, 6> kTypes = {"IQ3_XXS", "IQ2_S", "IQ1_M", "TQ1_0", "NVFP4", "TQ2_0"};
  const test::TemporaryDirectory directory;
  directory.write("model.gguf", test::MixedGguf(kTypes).stored());
  const auto source = GgufCheckpoint::open(directory.path() / "model.gguf");
  ModelSpec spec = make_spec(load_config(directory.path() / "model.gguf"));
  spec.same_bits = true;
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < 21; ++i) tokens.push_back(static_cast<TokenId>(i * 97 % test::kMixedVocab));
  expect_same_bits(groups, {spec, *source, tokens, std::nullopt},
                   std::min(leaf_heads(spec), test::world().size()), "codes");
}

// FP8 whose blocks ranks cut, columns in the order of activations, int8.
TEST(SameBits, ForQuantizedCheckpointsAsStored) {
  Groups groups;
  const test::Plain plain = test::plain_random();
  ModelSpec spec = make_spec(plain.config);
  spec.same_bits = true;
  for (const test::QuantizedCase& of :
       {test::QuantizedCase{nullptr, test::GroupFormat::awq, 0, false, 8, test::Order::plain,
                            test::F8Blocks{128, 128, "F32"}},
        test::QuantizedCase{nullptr, test::GroupFormat::gptq, 128, false, 4, test::Order::by_activations},
        test::QuantizedCase{nullptr, test::GroupFormat::packed_zeros, 64, true, 8},
        test::QuantizedCase{nullptr, test::GroupFormat::packed, 32, true}}) {
    test::Checkpoints files;
    test::convert(plain, of, files);
    const auto source = open_checkpoint(files.quantized.path());
    expect_same_bits(groups, {spec, *source, plain.prompt, std::nullopt},
                     std::min(leaf_heads(spec), test::world().size()), source->types().front().type);
  }
}

}  // namespace
}  // namespace tp
