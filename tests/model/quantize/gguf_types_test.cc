// GGUF files of every type that the program writes, made from seeded fixtures: their elements by the
// definition of the formats, and the models' logits.
#include "model/config/config.h"
#include "model/quantize/quantize_model.h"
#include "model/quantize/type_choice.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/gguf.h"
#include "tests/temporary_directory.h"

#include <cstring>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::ModelUnderTest;

void write(const std::filesystem::path& model, const std::string& weights,
           const std::filesystem::path& output) {
  quantize_model({.model = model, .name = "model", .weights = weights, .output = output},
                 [](std::uint64_t, std::uint64_t) {});
}

const std::uint8_t* data_of(const GgufFiles::Entry& entry) {
  return reinterpret_cast<const std::uint8_t*>(entry.file.bytes().data()) + entry.tensor.bytes.begin;
}

// Returns how many elements of a tensor differ from the float32 tensor's.
std::size_t different_elements(const GgufFiles::Entry& stored, const GgufFiles::Entry& f32) {
  const GgufType& type = stored.tensor.type;
  std::size_t different = 0;
  for (std::size_t i = 0; i < f32.tensor.bytes.size() / sizeof(float); ++i) {
    const std::uint8_t* const block = data_of(stored) + i / type.block_elements * type.block_bytes;
    const float element = reference::gguf_element(type.name, block, i % type.block_elements);
    different += std::memcmp(&element, data_of(f32) + i * sizeof(float), sizeof(float)) == 0 ? 0 : 1;
  }
  return different;
}

// The logits of a fixture's prompt with a GGUF file's weights in float32.
class FileUnderTest {
 public:
  explicit FileUnderTest(const std::filesystem::path& file)
      : config_(load_config(file)),
        source_(GgufCheckpoint::open(file)),
        decoder_(test::world(), config_, *source_, {.weights = WeightType::f32}) {}
  std::vector<float> logits(const Fixture& fixture) { return decoder_.append(fixture.prompt); }
  double difference(const Fixture& fixture) { return decoder_.difference(logits(fixture), fixture.rows); }

 private:
  CheckpointConfig config_;
  std::unique_ptr<GgufCheckpoint> source_;
  ModelUnderTest decoder_;
};

class GgufTypes : public testing::TestWithParam<std::string> {};

// The rows of llama-gqa's ffn_down are whole blocks of 256, so every type has a matrix.
TEST_P(GgufTypes, AreReadByTheirFormats) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "model.gguf";
  const std::filesystem::path in_f32 = directory.path() / "f32.gguf";
  for (const char* name : {"llama-gqa", "mixtral-4e"}) {
    const Fixture fixture = reference::fixture(name);
    write(fixture.folder, GetParam(), file);
    write(file, "f32", in_f32);
    const GgufFiles stored(file);
    const GgufFiles f32(in_f32);
    ASSERT_EQ(stored.tensors().size(), f32.tensors().size());
    if (test::world().is_root()) {
      for (const auto& [tensor, entry] : stored.tensors())
        EXPECT_EQ(different_elements(entry, *f32.find(tensor)), 0U) << name << ", " << tensor;
    }
    EXPECT_EQ(FileUnderTest(file).logits(fixture), FileUnderTest(in_f32).logits(fixture)) << name;
  }
}

std::string name_of_type(const testing::TestParamInfo<std::string>& info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(All, GgufTypes, testing::ValuesIn(TypeChoice::names()), name_of_type);

// The fixtures' weights are stored in bf16, so nothing is lost: the expected logits are the original code's.
TEST(GgufFiles, InBf16HaveTheLogitsOfTheOriginalModellingCode) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "model.gguf";
  for (const char* name : {"llama-gqa-bf16", "qwen2-untied-bf16"}) {
    const Fixture fixture = reference::fixture(name);
    write(fixture.folder, "bf16", file);
    EXPECT_LE(FileUnderTest(file).difference(fixture), 1e-4) << name;
  }
}

// precision_test.cc explains the bound for root mean square errors: rounding to 11 bits gives every product
// an error of 2^-12, and rounding uniform elements to 8 bits one of 2^-8. The largest of some thousand errors
// is below six deviations of the logits, whose deviation is 2.4.
TEST(GgufFiles, WithFewerBitsHaveNearlyTheLogitsOfTheFixture) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "model.gguf";
  for (const char* name : {"llama-gqa", "gpt2-6heads", "qwen2-tied-14q2kv"}) {
    const Fixture fixture = reference::fixture(name);
    if (load_config(fixture.folder).num_attention_heads < test::world().size()) continue;
    const double products = 4.0 * static_cast<double>(load_config(fixture.folder).num_hidden_layers) + 2;
    for (const auto& [weights, unit] : {std::pair{"f16", 0x1p-12}, {"int8", 0x1p-8}}) {
      write(fixture.folder, weights, file);
      const double difference = FileUnderTest(file).difference(fixture);
      EXPECT_LE(difference, 6 * 2.4 * 2 * unit * std::sqrt(products)) << name << ", " << weights;
      if (test::world().is_root()) {
        EXPECT_GT(difference, 0.0) << name << ", " << weights;
      }
    }
  }
}

}  // namespace
}  // namespace tp
