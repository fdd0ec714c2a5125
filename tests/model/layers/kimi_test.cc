// Kimi K2 without K2.5's wrapper, under its repositories' class names, and configs of Kimi-Linear.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

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

// Kimi-Linear's config with other fields.
nlohmann::json linear_config_with(const nlohmann::json& fields) {
  nlohmann::json config;
  std::ifstream(reference::fixture("kimilinear").folder / "config.json") >> config;
  config.merge_patch(fields);
  return config;
}

ModelSpec linear_spec_with(const nlohmann::json& fields) {
  return make_spec(parse_config(linear_config_with(fields).dump(), "config.json"));
}

TEST(KimiLinear, CountsLayersFromOne) {
  const ModelSpec spec = linear_spec_with({{"linear_attn_config", {{"full_attn_layers", {2, 5}}}}});
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer)
    EXPECT_EQ(keeps_state(spec.blocks[layer]), layer != 1 && layer != 4) << layer;
  for (const std::size_t layer : {0U, 6U})
    EXPECT_THROW(linear_spec_with({{"linear_attn_config", {{"full_attn_layers", {layer}}}}}), ConfigError);
}

TEST(KimiLinear, RefusesOtherVariants) {
  for (const nlohmann::json& fields :
       {nlohmann::json{{"linear_attn_config", {{"gate_lower_bound", -5.0}}}},
        nlohmann::json{{"mla_use_nope", false}}, nlohmann::json{{"num_nextn_predict_layers", 1}}})
    EXPECT_THROW(linear_spec_with(fields), ConfigError) << fields;
}

}  // namespace
}  // namespace tp
