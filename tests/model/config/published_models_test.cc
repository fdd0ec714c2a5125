// Parameter counts of published models, from their config.json.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "parallel/machine/file_text.h"
#include "tests/expect_contains.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

// Parameters from the models' pages on the Hugging Face Hub (their safetensors files, tied embeddings once).
// Some are counted by hand from the shapes of the tensors, because the page rounds, or includes a vision
// tower or multi-token prediction layers. Gemma 3 4B: Gemma 3 Technical Report, 2025, table 1, gives 675
// million in the embedding and 3,209 million others. Apertus' count includes the constants of its
// activations, which are tensors in its files.
json published_models() {
  std::ifstream stream(std::filesystem::path(TP_TEST_DATA) / "published_models.json");
  return json::parse(stream);
}

// `active`: the parameters less the experts that a token does not use, by hand: layers x (experts - experts
// per token) x matrices x sizes. Of a hash table, a token uses a row per head. Gemma 3n's shared layers do
// not use their own keys and values. A model without the number uses all of its parameters.
TEST(PublishedModels, HaveAsManyParametersAsTheirFiles) {
  for (const json& model : published_models()) {
    json config = model.at("config");
    config["architectures"] = json::array({model.at("architecture")});
    const std::string name = model.at("model");
    const ModelSpec spec = make_spec(parse_config(config.dump(), name));
    const auto parameters = model.at("parameters").get<std::size_t>();
    EXPECT_EQ(count_parameters(spec), parameters) << name;
    EXPECT_EQ(count_active_parameters(spec), model.value("active", parameters)) << name;
    const bool has_experts =
        std::ranges::any_of(spec.blocks, [](const BlockSpec& block) { return experts_in(block) != nullptr; });
    EXPECT_EQ(has_experts || spec.unused_parameters != 0, model.contains("active")) << name;
  }
}

// The counts are computed by hand from the shapes of the tensors.
TEST(PublishedModels, HaveTheCountedParametersForShapesOfBenchmarks) {
  struct Counts {
    const char* name;
    std::size_t all;
    std::size_t active;
  };
  constexpr Counts kShapes[] = {
      {"bert-base", 87614208, 87614208},          {"deepseek-v3", 671026419200, 37552297472},
      {"gpt-oss-120b", 116829156672, 5711982912}, {"kimi-k2", 1026408232448, 32861500928},
      {"llama-70b", 70553706496, 70553706496},    {"qwen3-235b-a22b", 235093634560, 22190763520},
      {"qwen3-32b", 32762123264, 32762123264},    {"qwen3-4b", 4022468096, 4022468096},
      {"qwen3-8b", 8190735360, 8190735360},       {"glm4-moe-cut", 3598564032, 934132416},
      {"gpt2-base", 87415296, 87415296},          {"llama-1b", 1038682112, 1038682112},
      {"llama-thin", 9969920, 9969920},           {"llama-tiny", 41558528, 41558528},
      {"qwen3-moe-cut", 5607297024, 1077448704},  {"qwen3-next-cut", 2516045952, 1157091456},
      {"llama-8b-cut", 1923125248, 1923125248},   {"llama-8b-eagle3", 950026240, 950026240},
      {"qwen3-moe-eagle3", 494149632, 494149632}, {"qwen3-30b-a3b", 30532122624, 3353032704},
      {"qwen3.8-cut", 42755579520, 3276693120}};
  const std::filesystem::path folder = std::filesystem::path(TP_TEST_DATA) / ".." / ".." / "bench" / "shapes";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files += entry.path().extension() == ".json";
  EXPECT_EQ(files, std::size(kShapes));
  for (const Counts& counts : kShapes) {
    const ModelSpec spec = make_spec(load_config(folder / (std::string(counts.name) + ".json")));
    EXPECT_EQ(count_parameters(spec), counts.all) << counts.name;
    EXPECT_EQ(count_active_parameters(spec), counts.active) << counts.name;
  }
}

// "gemma-3-1b-it (1.00 B)".
std::string name_and_size(const json& model) {
  const std::string name = model.at("model");
  const double millions = model.at("parameters").get<double>() / 1e6;
  const double billions = millions / 1e3;
  const int decimals = billions < 9.995 ? 2 : billions < 99.95 ? 1 : 0;
  const std::string size =
      millions < 999.5 ? fmt::format("{:.0f} M", millions) : fmt::format("{:.{}f} B", billions, decimals);
  return fmt::format("{} ({})", name.substr(name.find('/') + 1), size);
}

std::string guide() {
  return file_text(std::filesystem::path(TP_TEST_DATA) / ".." / ".." / "model" / "README.md");
}

// Families whose models' sizes are not known well enough to count parameters.
bool has_published_sizes(const std::string& architecture) {
  static const std::set<std::string> unknown = {"BailingMoeV3ForCausalLM", "Cohere2MoeForCausalLM",
                                                "LagunaForCausalLM"};
  return !unknown.contains(architecture);
}

TEST(PublishedModels, AreOfEveryFamilyThatTheGuideHas) {
  const json models = published_models();
  const std::string text = guide();
  for (const std::string& name : supported_architectures()) {
    const std::string& architecture = family_of(name).architecture;
    if (family_of(name).kind != ModelKind::decoder) continue;
    EXPECT_CONTAINS(text, "`" + architecture + "`");
    if (!has_published_sizes(architecture)) continue;
    EXPECT_TRUE(std::ranges::any_of(models, [&](const json& model) {
      return family_of(model.at("architecture").get<std::string>()).architecture == architecture;
    })) << architecture;
  }
}

TEST(PublishedModels, AreTheExamplesOfTheGuide) {
  const std::string text = guide();
  for (const json& model : published_models()) EXPECT_CONTAINS(text, name_and_size(model));
}

}  // namespace
}  // namespace tp
