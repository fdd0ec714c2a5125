// Kimi K2 without K2.5's wrapper, under the class names in its repositories.
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/model_under_test.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

TEST(Kimi, HasTheSameLogitsWithoutAWrapper) {
  const reference::Fixture fixture = reference::fixture("kimik25");
  nlohmann::json config;
  std::ifstream(fixture.folder / "config.json") >> config;
  const auto wrapped = SafetensorsCheckpoint::open(fixture.folder);
  std::vector<test::TestTensor> tensors;
  constexpr std::string_view kPart = "language_model.";
  for (const std::string& name : wrapped->names()) {
    if (!name.starts_with(kPart)) continue;
    const auto raw = wrapped->find_raw(name);
    const auto* const bytes = reinterpret_cast<const char*>(raw->data);
    tensors.push_back({name.substr(kPart.size()), std::string(raw->tensor.type.name), raw->tensor.shape,
                       std::string(bytes, raw->tensor.bytes.size())});
  }
  for (const char* const architecture : {"KimiK2ForCausalLM", "DeepseekV3ForCausalLM"}) {
    const test::TemporaryDirectory directory;
    nlohmann::json bare = config.at("text_config");
    bare["architectures"] = nlohmann::json::array({architecture});
    directory.write("config.json", bare.dump());
    directory.write("model.safetensors", test::safetensors_file(tensors));
    const auto source = SafetensorsCheckpoint::open(directory.path());
    test::ModelUnderTest decoder(test::world(), load_config(directory.path()), *source,
                                 {.weights = WeightType::f32});
    EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), 1e-3) << architecture;
    EXPECT_TRUE(decoder.model().unused_tensors().empty());
  }
}

}  // namespace
}  // namespace tp
