// GLM-5.3 as transformers writes it: other names of tensors, and a config without linear_attn_config.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/layers/glm_modules.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// The fixture's config without linear_attn_config, and with the fields that transformers writes instead.
nlohmann::json config_of_modules(const nlohmann::json& fields) {
  nlohmann::json config = test::config_in(reference::fixture("glm5next").folder);
  config["text_config"].erase("linear_attn_config");
  config["text_config"].merge_patch(fields);
  return config;
}

CheckpointConfig parsed(const nlohmann::json& config) { return parse_config(config.dump(), "config.json"); }

TEST(Glm53, HasTheSameLogitsUnderTheNamesOfModules) {
  const reference::Fixture fixture = reference::fixture("glm5next");
  const test::TemporaryDirectory directory;
  test::write_glm_modules(directory.path(),
                          config_of_modules({{"linear_num_heads", 6}, {"linear_head_dim", 10}}), fixture);
  std::vector<std::vector<std::string>> unused;
  for (const std::filesystem::path& folder : {fixture.folder, directory.path()}) {
    const auto source = SafetensorsCheckpoint::open(folder);
    test::ModelUnderTest decoder(test::world(), load_config(folder), *source, {.weights = WeightType::f32});
    EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows),
              std::max(1e-4, 4 * fixture.noise))
        << folder;
    unused.push_back(decoder.model().unused_tensors());
  }
  EXPECT_EQ(unused[1], unused[0]);
}

TEST(Glm53, HasTheNumbersOfItsRecurrenceOutsideOfAnObject) {
  const nlohmann::json fields = {{"linear_num_heads", 6},
                                 {"linear_head_dim", 10},
                                 {"linear_conv_kernel_dim", 3},
                                 {"linear_lower_bound", -4.0}};
  nlohmann::json published = test::config_in(reference::fixture("glm5next").folder);
  published["text_config"]["linear_attn_config"].update(
      {{"short_conv_kernel_size", 3}, {"gate_lower_bound", -4.0}});
  EXPECT_TRUE(make_spec(parsed(config_of_modules(fields))).blocks == make_spec(parsed(published)).blocks);
  EXPECT_CONTAINS(test::error_of<ConfigError>([] {
                    parsed(config_of_modules({{"linear_lower_bound", 1.0}}));
                  }),
                  "gate_lower_bound must be below 0");
}

TEST(Glm53, HasTheUsualNumbersIfTheConfigLeavesThemOut) {
  const CheckpointConfig config = parsed(config_of_modules({{"layer_types", nullptr}}));
  EXPECT_EQ(config.delta_net.num_key_heads, 64U);
  EXPECT_EQ(config.delta_net.num_value_heads, 64U);
  EXPECT_EQ(config.delta_net.key_head_dim, 128U);
  EXPECT_EQ(config.delta_net.conv_kernel_dim, 4U);
  EXPECT_EQ(config.delta_net.decay_floor, -5.0);
  const std::string linear = "linear_attention";
  EXPECT_EQ(config.layer_types, (std::vector<std::string>{linear, linear, linear, "full_attention", linear}));
}

}  // namespace
}  // namespace tp
