// Qwen3.8-Flash-Next: cases that the fixture does not cover.
#include "model/config/config.h"
#include "model/config/ngrams/ngram_hash.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/source/source_decorator.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;

// A checkpoint that also contains the multipliers of its hash, as published ones do.
class WithMultipliers final : public SourceDecorator {
 public:
  WithMultipliers(std::unique_ptr<WeightSource> stored, std::vector<std::int64_t> multipliers)
      : SourceDecorator(std::move(stored)), multipliers_(std::move(multipliers)) {}

  bool contains(const std::string& name) const override {
    return name.ends_with(".ple_embedding.layer_multipliers") || SourceDecorator::contains(name);
  }
  std::vector<std::int64_t> whole_numbers(const std::string&, MatrixShape,
                                          const std::string&) const override {
    return multipliers_;
  }

 private:
  std::vector<std::int64_t> multipliers_;
};

TEST(Qwen4Exp, ComparesTheConstantsOfItsHashWithTheCheckpoints) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("qwen4exp");
  const CheckpointConfig config = load_config(fixture.folder);
  const HashTableConfig& table = config.hash_table;
  std::vector<std::int64_t> multipliers;
  for (const std::uint64_t multiplier :
       splitmix_multipliers(table.seed, 0, table.ngram_size, config.vocab_size))
    multipliers.push_back(static_cast<std::int64_t>(multiplier));
  const auto load = [&] {
    const WithMultipliers source(SafetensorsCheckpoint::open(fixture.folder), multipliers);
    const test::ModelUnderTest model(comm, config, source, {});
  };
  EXPECT_NO_THROW(load());
  multipliers.back() += 2;
  EXPECT_CONTAINS(test::error_of<CheckpointError>(load), "ple_embedding.layer_multipliers");
}

}  // namespace
}  // namespace tp
