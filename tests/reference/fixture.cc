#include "tests/reference/fixture.h"

#include "model/weights/checkpoint/strict_json.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

namespace tp::reference {
namespace {

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return parse_python_json(text, [](const auto&...) {});  // a published config may contain Infinity
}

std::vector<TokenId> read_ids(const std::filesystem::path& path) {
  return read_json(path).at("ids").get<std::vector<TokenId>>();
}

double read_noise(const std::filesystem::path& meta) {
  if (!std::filesystem::exists(meta)) return 0.0;
  const nlohmann::json noise = read_json(meta).value("noise_f64_vs_f32", nlohmann::json());
  return noise.is_number() ? noise.get<double>() : 0.0;
}

Fixture load(const std::filesystem::path& folder) {
  const std::filesystem::path greedy = folder / "greedy.json";
  return {.name = folder.filename().string(),
          .folder = folder,
          .prompt = read_ids(folder / "prompt.json"),
          .greedy = std::filesystem::exists(greedy) ? read_ids(greedy) : std::vector<TokenId>(),
          .logits = read_npy(folder / "expected_logits.npy"),
          .noise = read_noise(folder / "meta.json")};
}

std::vector<Fixture> find_fixtures(const std::vector<std::string>& architectures, bool quantized) {
  std::filesystem::path all = std::filesystem::path(TP_SHARED_FIXTURES) / "logits";
  if (!std::filesystem::exists(all)) all = std::filesystem::path(TP_TEST_DATA) / "logits";
  std::vector<Fixture> fixtures;
  for (const auto& entry : std::filesystem::directory_iterator(all)) {
    const nlohmann::json config = read_json(entry.path() / "config.json");
    const std::string architecture = config.at("architectures").front();
    const auto wanted = std::find(architectures.begin(), architectures.end(), architecture);
    if (wanted != architectures.end() && config.contains("quantization_config") == quantized)
      fixtures.push_back(load(entry.path()));
  }
  std::sort(fixtures.begin(), fixtures.end(),
            [](const Fixture& a, const Fixture& b) { return a.name < b.name; });
  return fixtures;
}

}  // namespace

bool has_all_fixtures() {
  return std::filesystem::exists(std::filesystem::path(TP_SHARED_FIXTURES) / "logits");
}

std::vector<Fixture> fixtures_of(const std::vector<std::string>& architectures) {
  return find_fixtures(architectures, false);
}

std::vector<Fixture> quantized_fixtures_of(const std::vector<std::string>& architectures) {
  return find_fixtures(architectures, true);
}

std::vector<Fixture> gguf_fixtures() {
  std::filesystem::path all = std::filesystem::path(TP_SHARED_FIXTURES) / "gguf";
  if (!std::filesystem::exists(all)) all = std::filesystem::path(TP_TEST_DATA) / "gguf";
  std::vector<Fixture> fixtures;
  for (const auto& entry : std::filesystem::directory_iterator(all)) {
    if (std::filesystem::exists(entry.path() / "prompt.json")) fixtures.push_back(load(entry.path()));
  }
  std::sort(fixtures.begin(), fixtures.end(),
            [](const Fixture& a, const Fixture& b) { return a.name < b.name; });
  return fixtures;
}

Fixture fixture(const std::string& name) {
  return load(std::filesystem::path(TP_TEST_DATA) / "logits" / name);
}

Fixture bidirectional_fixture() {
  return load(std::filesystem::path(TP_TEST_DATA) / "bidirectional" / "dream-as-qwen2");
}

}  // namespace tp::reference
