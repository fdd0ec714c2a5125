// Checkpoints of AWQ, GPTQ and compressed-tensors on several ranks.
#include "tests/reference/group_quantized.h"

#include "model/config/config.h"
#include "model/weights/checkpoint/mapped_file.h"
#include "model/weights/checkpoint/safetensors_checkpoint.h"
#include "model/weights/checkpoint/safetensors_header.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/weight_loader.h"
#include "tests/model/decoder_under_test.h"
#include "tests/model/small_config.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/random.h"
#include "tp/mpi.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::GroupFormat;
using reference::GroupQuantized;
using test::DecoderUnderTest;
using test::TestTensor;

// A model in float32.
struct Plain {
  ModelConfig config;
  std::vector<TestTensor> tensors;
  std::vector<TokenId> prompt;
};

Plain plain_fixture(const std::string& name) {
  const reference::Fixture fixture = reference::fixture(name);
  Plain plain{load_config(fixture.folder), {}, fixture.prompt};
  const MappedFile file(fixture.folder / "model.safetensors");
  for (const StoredTensor& tensor : parse_safetensors_header(file.bytes(), file.name()).tensors) {
    const auto* const data = reinterpret_cast<const char*>(file.bytes().data());
    plain.tensors.push_back({tensor.name, std::string(tensor.type.name), tensor.shape,
                             std::string(data + tensor.bytes.begin, data + tensor.bytes.end)});
  }
  return plain;
}

// With three groups of 128 in the feed-forward layer's columns, which two ranks cut in the middle of a group,
// and two in those of the output projection, which three ranks cut so.
Plain plain_random() {
  nlohmann::json config = test::small_config();
  config.update({{"hidden_size", 256}, {"intermediate_size", 384}, {"num_attention_heads", 8}});
  Plain plain{test::parse(config), {}, {}};
  reference::Random random(5);
  const auto add = [&](const std::string& name, std::vector<std::size_t> shape, float mean, float range) {
    std::vector<float> values(shape.size() == 1 ? shape[0] : shape[0] * shape[1]);
    for (float& value : values) value = mean + random.number() * range;
    plain.tensors.push_back({name, "F32", std::move(shape), test::bytes_of(values)});
  };
  add("model.embed_tokens.weight", {320, 256}, 0, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    add(layer + "input_layernorm.weight", {256}, 1, 0.1F);
    add(layer + "post_attention_layernorm.weight", {256}, 1, 0.1F);
    add(layer + "self_attn.q_proj.weight", {256, 256}, 0, 0.1F);
    add(layer + "self_attn.k_proj.weight", {128, 256}, 0, 0.1F);
    add(layer + "self_attn.v_proj.weight", {128, 256}, 0, 0.1F);
    add(layer + "self_attn.o_proj.weight", {256, 256}, 0, 0.1F);
    add(layer + "mlp.gate_proj.weight", {384, 256}, 0, 0.1F);
    add(layer + "mlp.up_proj.weight", {384, 256}, 0, 0.1F);
    add(layer + "mlp.down_proj.weight", {256, 384}, 0, 0.1F);
  }
  add("model.norm.weight", {256}, 1, 0.1F);
  add("lm_head.weight", {320, 256}, 0, 0.1F);
  for (std::size_t i = 0; i < 21; ++i) plain.prompt.push_back(static_cast<TokenId>(random.integer(0, 319)));
  return plain;
}

// The projections quantized, and the same numbers in float32.
struct Checkpoints {
  test::TemporaryDirectory quantized;
  test::TemporaryDirectory dequantized;
  double bits = 0.0;  // that the quantized ones' elements take in the file, on average
};

// Groups of so many columns; 0: a whole row.
void convert(const Plain& plain, GroupFormat format, std::size_t group, bool bf16_scales, Checkpoints& out) {
  std::vector<TestTensor> quantized;
  std::vector<TestTensor> dequantized;
  std::size_t elements = 0;
  std::size_t bytes = 0;
  for (const TestTensor& tensor : plain.tensors) {
    if (!tensor.name.ends_with("_proj.weight")) {
      quantized.push_back(tensor);
      dequantized.push_back(tensor);
      continue;
    }
    std::vector<float> values(tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    const std::size_t columns = tensor.shape[1];
    const GroupQuantized weight(values, tensor.shape[0], columns, group == 0 ? columns : group,
                                format == GroupFormat::packed, bf16_scales);
    for (TestTensor& part : weight.tensors(tensor.name.substr(0, tensor.name.size() - 7), format)) {
      if (!part.name.ends_with("g_idx") && !part.name.ends_with("weight_shape")) bytes += part.data.size();
      quantized.push_back(std::move(part));
    }
    elements += values.size();
    dequantized.push_back({tensor.name, "F32", tensor.shape, test::bytes_of(weight.values())});
  }
  out.bits = 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
  const nlohmann::json config = {{"quantization_config", reference::quantization_config(format, group)}};
  out.quantized.write("model.safetensors", test::safetensors_file(quantized));
  out.quantized.write("config.json", config.dump());
  out.dequantized.write("model.safetensors", test::safetensors_file(dequantized));
}

struct Case {
  const char* fixture;  // or null for plain_random
  GroupFormat format;
  std::size_t group;
  bool bf16_scales;
};

constexpr Case kCases[] = {
    {"llama-rope-yarn", GroupFormat::awq, 32, false},  {"llama-rope-yarn", GroupFormat::gptq, 32, false},
    {"llama-rope-yarn", GroupFormat::packed, 0, true}, {nullptr, GroupFormat::awq, 128, false},
    {nullptr, GroupFormat::gptq, 128, false},          {nullptr, GroupFormat::gptq_v2, 64, false},
    {nullptr, GroupFormat::packed, 128, true},         {nullptr, GroupFormat::packed_zeros, 128, true},
    {nullptr, GroupFormat::packed_zeros, 64, false},   {nullptr, GroupFormat::packed_int8_zeros, 32, true},
};

class GroupQuantizedModel : public testing::TestWithParam<Case> {
 protected:
  GroupQuantizedModel() {
    convert(plain_, GetParam().format, GetParam().group, GetParam().bf16_scales, files_);
    source_ = open_checkpoint(files_.quantized.path());
    dequantized_ = open_checkpoint(files_.dequantized.path());
  }

  std::vector<float> logits_of(Communicator& comm, const DecoderSpec& spec, const WeightSource& source,
                               std::optional<WeightType> type) const {
    DecoderUnderTest decoder(comm, spec, source, {.weights = type});
    return decoder.append(plain_.prompt);
  }

  Plain plain_ = GetParam().fixture != nullptr ? plain_fixture(GetParam().fixture) : plain_random();
  Checkpoints files_;
  std::unique_ptr<WeightSource> source_;
  std::unique_ptr<WeightSource> dequantized_;
  Communicator& comm_ = test::world();
  DecoderSpec spec_ = make_spec(plain_.config);
};

TEST_P(GroupQuantizedModel, GivesTheLogitsOfTheSameNumbersInFloat32) {
  EXPECT_EQ(logits_of(comm_, spec_, *source_, WeightType::f32),
            logits_of(comm_, spec_, *dequantized_, WeightType::f32));
}

// Activations are rounded as with int8, and there weights are, too. The largest of some thousand errors of
// one distribution is less than twice that of as many others.
TEST_P(GroupQuantizedModel, IsOffByTheRoundingOfActivationsWithWeightsAsStored) {
  const std::vector<float> expected = logits_of(comm_, spec_, *dequantized_, WeightType::f32);
  const auto largest_error = [&](const WeightSource& source, std::optional<WeightType> type) {
    const std::vector<float> logits = logits_of(comm_, spec_, source, type);
    double largest = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(logits[i] - expected[i]);
      largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    }
    return largest;
  };
  const double largest = largest_error(*source_, std::nullopt);
  EXPECT_LE(largest, 2 * largest_error(*dequantized_, WeightType::int8));
}

// Every rank's rows and columns bit for bit, at the file's size.
TEST_P(GroupQuantizedModel, HoldsEveryRanksSlicesExactly) {
  const TpRank tp{comm_.rank(), comm_.size()};
  WeightLoader loader(*source_, tp, std::nullopt, nullptr);
  const std::size_t hidden = plain_.config.hidden_size;
  const std::size_t intermediate = plain_.config.intermediate_size;
  const Range own = loader.own_columns(intermediate);
  const StoredLayer up{"model.layers.1.mlp.up_proj", {intermediate, hidden}};
  const StoredLayer down{"model.layers.1.mlp.down_proj", {hidden, intermediate}};
  const auto expect = [&](const LocalWeight& weight, const StoredLayer& layer, const TensorSlice& slice) {
    EXPECT_GE(weight.type(), WeightType::int4_g32);
    std::vector<float> held(slice.columns.size());
    std::vector<float> stored(slice.columns.size());
    for (std::size_t row = 0; row < slice.rows.size(); ++row) {
      weight.unpack_row(row, held.data());
      const std::size_t of_file = slice.rows.begin + row;
      dequantized_->read(layer.name + ".weight", layer.shape, {{of_file, of_file + 1}, slice.columns},
                         {stored.data(), 1, stored.size()});
      ASSERT_EQ(held, stored) << layer.name << ", row " << of_file;
    }
    // Panels of 16 rows and blocks of 64 columns, of which such small slices may have two cut ones.
    const std::size_t rows = (slice.rows.size() + 15) / 16 * 16;
    const std::size_t columns = (slice.columns.end + 63) / 64 * 64 - slice.columns.begin / 64 * 64;
    const bool is_large = GetParam().group >= 32 && rows * columns == slice.size();
    if (!is_large || slice.columns.begin % GetParam().group != 0 || slice.columns.end % GetParam().group != 0)
      return;
    const bool is_small_symmetric = GetParam().format == GroupFormat::packed && GetParam().group == 32;
    EXPECT_LE(static_cast<double>(weight.bytes()),
              (is_small_symmetric ? 1.06 : 1.03) * static_cast<double>(slice.size()) * files_.bits / 8);
  };
  expect(loader.rows_of_weight({up, own}), up, TensorSlice::of_rows(up.shape, own));
  expect(loader.columns_of_weight(down, own), down, TensorSlice::of_columns(down.shape, own));
}

TEST_P(GroupQuantizedModel, HasTheSameBitsOnAnyNumberOfRanks) {
  DecoderSpec spec = spec_;
  spec.same_bits = true;
  Communicator self(MPI_COMM_SELF);
  const std::vector<float> whole = logits_of(self, spec, *source_, std::nullopt);
  const std::vector<float> part = logits_of(comm_, spec, *source_, std::nullopt);
  const std::size_t all = plain_.config.vocab_size;
  const Range vocab = shard_columns(all, {comm_.rank(), comm_.size()});
  ASSERT_EQ(part.size(), plain_.prompt.size() * vocab.size());
  for (std::size_t row = 0; row < plain_.prompt.size(); ++row) {
    ASSERT_EQ(std::memcmp(part.data() + row * vocab.size(), whole.data() + row * all + vocab.begin,
                          vocab.size() * sizeof(float)),
              0)
        << "token " << row;
  }
}

TEST_P(GroupQuantizedModel, IsConvertedToOtherTypes) {
  const std::vector<float> expected = logits_of(comm_, spec_, *dequantized_, WeightType::int8);
  EXPECT_EQ(logits_of(comm_, spec_, *source_, WeightType::int8), expected);
}

INSTANTIATE_TEST_SUITE_P(Formats, GroupQuantizedModel, testing::ValuesIn(kCases), [](const auto& info) {
  const Case& param = info.param;
  return fmt::format("{}_{}_of_{}{}", param.fixture != nullptr ? "fixture" : "random", name_of(param.format),
                     param.group, param.bf16_scales ? "_bf16" : "");
});

}  // namespace
}  // namespace tp
