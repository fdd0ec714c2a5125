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
  // SDAR's are of a block.
  if (const int of_block = whole("denoising_steps"); of_block != 0)
    one.settings.steps = of_block * (one.max_tokens / one.settings.block_length);
  if (mentions(one.algorithm, "LLaDA2"))  // of a block, too
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
  for (const auto& [name, architecture] : fixture_architectures("diffusion"))
    fixtures.push_back(diffusion_fixture(name));
  return fixtures;
}

}  // namespace tp::reference
