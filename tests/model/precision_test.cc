// What types of weights and of caches cost, on every fixture: the logits' relative error against the original
// float32 code, and greedy tokens.
//
// The bound. Rounding changes a product's addends by independent relative errors, so that its result, a sum
// of many, gets the same relative error in the mean (of squares). Every product of a token's way through the
// model adds its own: four in a block (with latent attention seven), the embedding and the LM head. Norms
// pass relative errors on, and residual sums weigh them down. So the logits, taken as deviations from their
// mean, are off by at most unit
// * sqrt(4 * blocks + 2), times two for what is not independent. The units:
//   f16, bf16   half a unit in the last place, as a mean of squares over a uniform error: 2^-12 and 2^-9;
//               besides 2^-9 for activations, which products of bf16 may round too, and those of f16 on a
//               matrix unit
//   int8        the greatest of 32 elements is 2.4 standard deviations in the mean, a step is 1/127 of it,
//               and a uniform error has 1 / sqrt(12) of a step: 5.5e-3, for weights and again for activations
//   int4        a step is 1/8 of the greatest element: 8.7e-2
// and for caches the same of their types, with two products a block. Where a router chooses experts, an error
// can turn a close choice, and then a token takes another way through the model. There the bound holds for
// the middle one of the positions, because most choices are not close: for types of 16 bits. With fewer, too
// many are turned for any bound.
#include "model/config/config.h"
#include "model/kernels/simd/tile_product.h"
#include "model/weights/checkpoint/safetensors_checkpoint.h"
#include "tests/model/decoder_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::DecoderUnderTest;

struct Precision {
  WeightType weights;
  KvType kv_type;
};

double weight_unit(WeightType type) {
  switch (type) {
    case WeightType::f32:
      return 1e-6;
    case WeightType::f16:
      return kernels::tile_kernels() == nullptr ? 0x1p-12 : std::hypot(0x1p-12, 0x1p-9);
    case WeightType::bf16:
      return std::sqrt(2.0) * 0x1p-9;
    case WeightType::int8:
      return std::sqrt(2.0) * 5.5e-3;
    case WeightType::int4:
      return std::hypot(8.7e-2, 5.5e-3);
  }
  return 0.0;
}

double cache_unit(KvType type) {
  return type == KvType::f32 ? 0.0 : type == KvType::bf16 ? std::sqrt(2.0) * 0x1p-9 : 5.5e-3;
}

bool has_16_bits(const Precision& precision) {
  return precision.weights != WeightType::int8 && precision.weights != WeightType::int4 &&
         precision.kv_type != KvType::int8;
}

double bound_of(const Precision& precision, const ModelConfig& config) {
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const double products = config.kv_lora_rank == 0 ? 4 : 7;  // of a block
  return 2 * std::hypot(weight_unit(precision.weights) * std::sqrt(products * layers + 2),
                        cache_unit(precision.kv_type) * std::sqrt(2 * layers));
}

// Of a row of logits, the standard deviation; what all logits have in common changes no probability.
double deviation(const float* row, std::size_t size) {
  const double mean = std::accumulate(row, row + size, 0.0) / static_cast<double>(size);
  double squares = 0.0;
  for (std::size_t i = 0; i < size; ++i) squares += (row[i] - mean) * (row[i] - mean);
  return std::sqrt(squares / static_cast<double>(size));
}

class PrecisionOfFixture : public testing::TestWithParam<Fixture> {
 protected:
  bool chooses_experts() const { return config_.num_experts != 0; }

  // The mean of squares of this rank's relative errors, over all positions or of the middle one.
  double error_of(const std::vector<float>& found, Range vocab) const {
    const auto& expected = GetParam().logits.view();
    std::vector<double> errors;
    for (std::size_t row = 0; row < expected.rows(); ++row) {
      double squares = 0.0;
      const double scale = deviation(expected.row(row), expected.columns());
      for (std::size_t i = 0; i < vocab.size(); ++i) {
        const double error = (found[row * vocab.size() + i] - expected(row, vocab.begin + i)) / scale;
        squares += error * error;
      }
      errors.push_back(squares / static_cast<double>(vocab.size()));
    }
    if (chooses_experts()) {
      std::nth_element(errors.begin(), errors.begin() + errors.size() / 2, errors.end());
      return std::sqrt(errors[errors.size() / 2]);
    }
    return std::sqrt(std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size()));
  }

  // Positions whose greedy token is sure, by a margin over the next of what two logits may be off by, but at
  // which a logit of this rank's lies on the wrong side of the middle between the two.
  std::size_t turned_choices(const std::vector<float>& found, Range vocab, double bound) const {
    constexpr double kDeviations = 4;  // of the worst logit of a few hundred
    const auto& expected = GetParam().logits.view();
    std::size_t turned = 0;
    for (std::size_t row = 0; row < expected.rows(); ++row) {
      const float* all = expected.row(row);
      const std::size_t best =
          static_cast<std::size_t>(std::max_element(all, all + expected.columns()) - all);
      float next = -INFINITY;
      for (std::size_t i = 0; i < expected.columns(); ++i) next = i == best ? next : std::max(next, all[i]);
      const double off = kDeviations * bound * deviation(all, expected.columns());
      if (all[best] - next < 2 * off) continue;
      const double middle = (all[best] + next) / 2;
      for (std::size_t i = 0; i < vocab.size(); ++i) {
        const bool above = found[row * vocab.size() + i] > middle;
        if (above != (vocab.begin + i == best)) ++turned;
      }
    }
    return turned;
  }

  Communicator& comm_ = test::world();
  ModelConfig config_ = load_config(GetParam().folder);
  std::unique_ptr<WeightSource> source_ = SafetensorsCheckpoint::open(GetParam().folder);
};

TEST_P(PrecisionOfFixture, StaysWithinTheBoundOfItsTypes) {
  if (config_.num_attention_heads < comm_.size()) GTEST_SKIP() << "more ranks than heads";
  for (const Precision& precision :
       {Precision{WeightType::f32, KvType::f32}, Precision{WeightType::f32, KvType::bf16},
        Precision{WeightType::f32, KvType::int8}, Precision{WeightType::f16, KvType::f32},
        Precision{WeightType::bf16, KvType::bf16}, Precision{WeightType::int8, KvType::bf16},
        Precision{WeightType::int8, KvType::int8}, Precision{WeightType::int4, KvType::bf16}}) {
    if (chooses_experts() && !has_16_bits(precision)) continue;
    DecoderUnderTest decoder(comm_, config_, *source_,
                             {.kv_type = precision.kv_type, .weights = precision.weights});
    const std::vector<float> logits = decoder.append(GetParam().prompt);
    const double error = error_of(logits, decoder.local_vocab());
    const double bound = bound_of(precision, config_);
    const std::string types =
        fmt::format("{} weights, {} cache", name_of(precision.weights), name_of(precision.kv_type));
    EXPECT_LE(error, bound) << types;
    if (chooses_experts()) continue;
    EXPECT_EQ(turned_choices(logits, decoder.local_vocab(), bound), 0U) << types;
  }
}

std::string test_name(const testing::TestParamInfo<Fixture>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, PrecisionOfFixture,
                         testing::ValuesIn(reference::fixtures_of(supported_architectures())), test_name);

}  // namespace
}  // namespace tp
