// Models whose configs and tensors are nested in another one's, or not: the same logits in both layouts.
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/temporary_directory.h"

#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

struct Layout {
  const char* fixture;
  const char* architecture;
  bool nests_config;      // the fields move into text_config, or out of it
  const char* from = "";  // the beginning of tensors' names, and what takes its place
  const char* to = "";
};

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.architecture; }

// Returns the config in the other layout.
json converted(json config, const Layout& layout) {
  json text = layout.nests_config ? config : config.at("text_config");
  text.erase("architectures");
  json result = layout.nests_config ? json{{"text_config", text}} : text;
  result["architectures"] = {layout.architecture};
  return result;
}

test::Tensors renamed(const test::Tensors& tensors, const Layout& layout) {
  test::Tensors result;
  for (const auto& [name, values] : tensors) {
    const bool has_beginning = name.starts_with(layout.from);
    result[has_beginning ? layout.to + name.substr(std::string_view(layout.from).size()) : name] = values;
  }
  return result;
}

class Layouts : public testing::TestWithParam<Layout> {};

TEST_P(Layouts, GiveTheSameLogits) {
  const Layout layout = GetParam();
  const reference::Fixture fixture = reference::fixture(layout.fixture);
  if (load_config(fixture.folder).num_attention_heads < test::world().size())
    GTEST_SKIP() << test::world().size() << " ranks";
  const test::TemporaryDirectory directory;
  test::write_checkpoint(directory.path(), converted(test::config_in(fixture.folder), layout),
                         renamed(test::tensors_of(fixture.folder), layout));
  const auto source = SafetensorsCheckpoint::open(directory.path());
  test::ModelUnderTest decoder(test::world(), load_config(directory.path()), *source,
                               {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(OfYear2026, Layouts,
                         testing::Values(Layout{"step35", "Step3p7ForConditionalGeneration", true},
                                         Layout{"gemma3n", "Gemma3nForCausalLM", false,
                                                "model.language_model.", "model."},
                                         Layout{"qwen25vl", "Qwen2_5_VLForConditionalGeneration", true,
                                                "model.", "model.language_model."}),
                         [](const auto& info) { return std::string(info.param.architecture); });

}  // namespace
}  // namespace tp
