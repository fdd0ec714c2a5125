#include "tests/reference/diffusion_fixture.h"

#include "tests/reference/fixture.h"
#include "tests/reference/json_file.h"

#include <utility>

namespace tp::reference {
namespace {

bool mentions(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

UnmaskRule rule_of(const std::string& algorithm) {
  for (const char* const word : {"threshold", "dynamic", "LLaDA2"}) {
    if (mentions(algorithm, word)) return UnmaskRule::threshold;
  }
  if (mentions(algorithm, "margin")) return UnmaskRule::margin;
  if (mentions(algorithm, "entropy")) return UnmaskRule::entropy;
  if (mentions(algorithm, "sequential")) return UnmaskRule::sequential;
  return UnmaskRule::low_confidence;
}

DiffusionCase case_of(const nlohmann::json& entry) {
  const auto number = [&](const char* name) {
    return entry.contains(name) && !entry.at(name).is_null() ? entry.at(name).get<double>() : 0.0;
  };
  const auto whole = [&](const char* name) { return static_cast<int>(number(name)); };
  DiffusionCase one;
  one.algorithm = entry.at("algorithm").get<std::string>();
  one.max_tokens = whole("gen_length") + whole("max_new_tokens");
  one.settings.block_length = whole("block_length");
  one.settings.steps = whole("steps");
  // SDAR's steps count per block.
  if (const int of_block = whole("denoising_steps"); of_block != 0)
    one.settings.steps = of_block * (one.max_tokens / one.settings.block_length);
  if (mentions(one.algorithm, "LLaDA2"))  // LLaDA2's steps also count per block
    one.settings.steps *= (one.max_tokens + one.settings.block_length - 1) / one.settings.block_length;
  one.settings.rule = rule_of(one.algorithm);
  if (mentions(one.algorithm, "prefix_cache")) one.settings.cache = UnmaskCache::prefix;
  if (mentions(one.algorithm, "dual_cache")) one.settings.cache = UnmaskCache::dual;
  one.settings.threshold = static_cast<float>(number("threshold") + number("confidence_threshold"));
  one.result = entry.at("result_ids").get<std::vector<TokenId>>();
  one.calls = entry.at("inputs_of_each_forward").get<std::vector<std::vector<TokenId>>>();
  return one;
}

}  // namespace

DiffusionFixture diffusion_fixture(const std::string& name) {
  const std::filesystem::path folder = seeded_folder("diffusion", name);
  const nlohmann::json expected = read_json(folder / "expected.json");
  const nlohmann::json masked = read_json(folder / "masked.json");
  DiffusionFixture fixture{.name = name,
                           .folder = folder,
                           .mask = masked.at("mask_id").get<TokenId>(),
                           .masked = masked.at("ids").get<std::vector<TokenId>>(),
                           .logits = {},
                           .prompt = read_json(folder / "prompt.json").at("ids").get<std::vector<TokenId>>(),
                           .cases = {},
                           .cached_cases = {}};
  fixture.logits =
      row_table(expected.at("logits"), fixture.masked.size(), expected.at("vocab").get<std::size_t>());
  const nlohmann::json generated = read_json(folder / "generate.json");
  for (const nlohmann::json& entry : generated.at("cases")) {
    DiffusionCase one = case_of(entry);
    (one.settings.cache ? fixture.cached_cases : fixture.cases).push_back(std::move(one));
  }
  return fixture;
}

std::vector<DiffusionFixture> diffusion_fixtures() {
  std::vector<DiffusionFixture> fixtures;
  for (const auto& [name, architecture] : fixture_architectures("diffusion")) {
    const bool has_masks = std::filesystem::exists(seeded_folder("diffusion", name) / "masked.json");
    if (has_masks) fixtures.push_back(diffusion_fixture(name));
  }
  return fixtures;
}

CanvasFixture canvas_fixture(const std::string& name) {
  const std::filesystem::path folder = seeded_folder("diffusion", name);
  const nlohmann::json expected = read_json(folder / "expected.json");
  const nlohmann::json generated = read_json(folder / "generate.json");
  CanvasFixture fixture;
  fixture.folder = folder;
  fixture.prompt = read_json(folder / "prompt.json").at("ids").get<std::vector<TokenId>>();
  fixture.noise = generated.at("noise").get<std::vector<std::vector<TokenId>>>();
  const nlohmann::json given = read_json(folder / "canvases.json");
  for (const nlohmann::json& step : given.at("steps"))
    fixture.canvases.push_back(step.at("canvas").get<std::vector<TokenId>>());
  for (std::size_t step = 0; step < fixture.canvases.size(); ++step) {
    nlohmann::json rows = nlohmann::json::array();
    for (const nlohmann::json& row : expected.at("logits")) {
      if (row.at("step") == step) rows.push_back(row);
    }
    fixture.logits.emplace_back(
        row_table(rows, fixture.canvases[step].size(), expected.at("vocab").get<std::size_t>()));
  }
  for (const nlohmann::json& entry : generated.at("cases")) {
    CanvasCase& one = fixture.cases.emplace_back();
    one.canvases = entry.at("canvases").get<std::size_t>();
    one.settings = {.max_denoising_steps = entry.at("max_denoising_steps").get<std::size_t>(),
                    .t_min = entry.at("t_min").get<float>(),
                    .t_max = entry.at("t_max").get<float>(),
                    .entropy_bound = entry.at("entropy_bound").get<float>(),
                    .stability_threshold = entry.at("stability_threshold").get<std::size_t>(),
                    .confidence_threshold = entry.at("confidence_threshold").get<float>()};
    one.result = entry.at("new_ids").get<std::vector<TokenId>>();
    for (const nlohmann::json& step : entry.at("steps")) {
      one.accepted.push_back(step.at("accepted").get<std::vector<std::size_t>>());
      one.best.push_back(step.at("argmax").get<std::vector<TokenId>>());
    }
  }
  return fixture;
}

}  // namespace tp::reference
