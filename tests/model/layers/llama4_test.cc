// Llama 4 as a part of a published multimodal model.
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <fstream>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::ModelUnderTest;

// The fixture's tensors under other names, and some of an image's encoder.
std::string multimodal_file(const SafetensorsCheckpoint& plain) {
  std::vector<test::TestTensor> tensors;
  for (const std::string& name : plain.names()) {
    const auto raw = plain.find_raw(name);
    const auto* const bytes = reinterpret_cast<const char*>(raw->data);
    tensors.push_back({"language_model." + name, std::string(raw->tensor.type.name), raw->tensor.shape,
                       std::string(bytes, raw->tensor.bytes.size())});
  }
  for (int i = 0; i < 12; ++i)
    tensors.push_back(test::counting_tensor("vision_model.layers." + std::to_string(i) + ".weight", {2, 3}));
  tensors.push_back(test::counting_tensor("multi_modal_projector.linear_1.weight", {2, 3}));
  return test::safetensors_file(tensors);
}

TEST(Llama4, IsReadFromAMultimodalCheckpointWithUnusedParts) {
  const reference::Fixture fixture = reference::fixture("llama4-scout");
  const auto plain = SafetensorsCheckpoint::open(fixture.folder);
  json text;
  std::ifstream(fixture.folder / "config.json") >> text;
  text.erase("architectures");
  const json config = {{"architectures", {"Llama4ForConditionalGeneration"}},
                       {"torch_dtype", "float32"},
                       {"vision_config", {{"hidden_size", 4}}},
                       {"text_config", text}};
  const test::TemporaryDirectory directory;
  directory.write("config.json", config.dump());
  directory.write("model.safetensors", multimodal_file(*plain));

  const auto source = SafetensorsCheckpoint::open(directory.path());
  ModelUnderTest decoder(test::world(), load_config(directory.path()), *source, {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), 1e-4);
  const std::vector<std::string>& unused = decoder.model().unused_tensors();
  EXPECT_EQ(unused.size(), test::world().is_root() ? 13U : 0U);
  for (const std::string& tensor : unused) EXPECT_FALSE(tensor.starts_with("language_model.")) << tensor;
}

// Chunk boundaries within and between the steps that compute a prompt.
TEST(Llama4, GivesTheSameLogitsInStepsOfAnyLength) {
  const reference::Fixture fixture = reference::fixture("llama4-scout");
  const auto source = SafetensorsCheckpoint::open(fixture.folder);
  for (const std::size_t chunk : {1U, 3U, 8U, 11U}) {
    ModelUnderTest decoder(test::world(), load_config(fixture.folder), *source,
                           {.chunk = chunk, .block_size = 4, .weights = WeightType::f32});
    EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), 1e-4) << chunk;
  }
}

}  // namespace
}  // namespace tp
