#include "tests/reference/fixture.h"

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/reference/json_file.h"
#include "tp/error.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

namespace tp::reference {
namespace {

double read_noise(const std::filesystem::path& meta) {
  if (!std::filesystem::exists(meta)) return 0.0;
  const nlohmann::json json = read_json(meta);
  const nlohmann::json noise =
      json.value("float64_vs_float32", json.value("noise_f64_vs_f32", nlohmann::json()));
  // float32 rounds weights by up to 2^-24 of themselves. The file has the change of logits by 1e-6.
  const double of_weights = json.value("weights_perturbed_by_1e-6", 0.0) * 0x1p-24 / 1e-6;
  return std::max(of_weights, noise.is_number() ? noise.get<double>() : 0.0);
}

// A file that is read at its first use.
class LazyFile {
 public:
  explicit LazyFile(std::filesystem::path path) : path_(std::move(path)) {}
  const nlohmann::json& json() {
    if (json_.is_null()) json_ = read_json(path_);
    return json_;
  }

 private:
  std::filesystem::path path_;
  nlohmann::json json_;
};

Fixture load(const std::filesystem::path& folder) {
  Fixture fixture{.name = folder.filename().string(),
                  .folder = folder,
                  .prompt = read_ids(folder / "prompt.json"),
                  .greedy = read_ids(folder / "greedy.json"),
                  .rows = {},
                  .greedy_rows = {},
                  .noise = read_noise(folder / "meta.json")};
  const auto expected = std::make_shared<LazyFile>(folder / "expected.json");
  const auto vocab = [expected] { return expected->json().at("vocab").get<std::size_t>(); };
  fixture.rows = ExpectedRows([=, positions = fixture.prompt.size()] {
    return row_table(expected->json().at("prompt"), positions, vocab());
  });
  fixture.greedy_rows = ExpectedRows([=, first = fixture.prompt.size() - 1, count = fixture.greedy.size()] {
    return row_table(rows_from(first, expected->json().at("greedy")), first + count, vocab());
  });
  return fixture;
}

StoredFixture load_stored(const std::filesystem::path& folder) {
  const std::filesystem::path greedy = folder / "greedy.json";
  StoredFixture fixture;
  fixture.name = folder.filename().string();
  fixture.folder = folder;
  fixture.prompt = read_ids(folder / "prompt.json");
  if (std::filesystem::exists(greedy)) fixture.greedy = read_ids(greedy);
  fixture.logits = read_npy(folder / "expected_logits.npy");
  fixture.rows = row_table(fixture.logits.view());
  fixture.noise = read_noise(folder / "meta.json");
  return fixture;
}

// Returns the family's architecture, or the class in config.json if no family reads it.
std::string architecture_in(const std::filesystem::path& folder, const nlohmann::json& config) {
  try {
    return family_of(load_config(folder).architecture).architecture;
  } catch (const Error&) {
    return config.at("architectures").front();
  }
}

struct Listed {
  std::string architecture;
  bool is_quantized = false;
};

// Returns the fixtures of a kind by name. Reads them once.
const std::map<std::string, Listed>& listed(std::string_view name) {
  static std::map<std::string, std::map<std::string, Listed>> kinds;
  const std::string kind(name);
  std::map<std::string, Listed>& fixtures = kinds[kind];
  if (!fixtures.empty()) return fixtures;
  for (const auto& entry : std::filesystem::directory_iterator(seeded_folder(kind))) {
    const nlohmann::json config = read_json(entry.path() / "config.json");
    fixtures[entry.path().filename()] = {architecture_in(entry.path(), config),
                                         config.contains("quantization_config")};
  }
  return fixtures;
}

std::vector<Fixture> find_fixtures(const std::vector<std::string>& architectures, bool quantized) {
  std::vector<Fixture> fixtures;
  for (const auto& [name, about] : listed("logits")) {
    const auto wanted = std::ranges::find(architectures, about.architecture);
    const std::vector<std::string> few = names_with_few_heads();
    if (std::ranges::find(few, name) != few.end()) continue;
    if (wanted != architectures.end() && about.is_quantized == quantized) fixtures.push_back(fixture(name));
  }
  return fixtures;
}

}  // namespace

std::vector<Fixture> fixtures_of(const std::vector<std::string>& architectures) {
  return find_fixtures(architectures, false);
}

std::vector<Fixture> quantized_fixtures_of(const std::vector<std::string>& architectures) {
  return find_fixtures(architectures, true);
}

std::vector<std::string> names_with_few_heads() { return {"rwkv7"}; }

Fixture fixture(const std::string& name) { return load(seeded_folder("logits", name)); }

AdapterFixture adapter_fixture(const std::string& name) {
  AdapterFixture fixture{load(seeded_folder("lora", name)), {}};
  const auto base = read_json(fixture.folder / "base.json").at("fixture").get<std::string>();
  fixture.base = std::filesystem::path(TP_SEEDED_FIXTURES) / base;
  return fixture;
}

std::vector<std::string> adapter_fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(seeded_folder("lora")))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::filesystem::path gguf_adapter(const std::string& name) {
  return std::filesystem::path(TP_TEST_DATA) / "gguf_lora" / name / "adapter.gguf";
}

std::map<std::string, std::string> fixture_architectures(const std::string& kind) {
  std::map<std::string, std::string> architectures;
  for (const auto& [name, about] : listed(kind)) architectures[name] = about.architecture;
  return architectures;
}

std::filesystem::path seeded_folder(const std::string& kind, const std::string& name) {
  return std::filesystem::path(TP_SEEDED_FIXTURES) / kind / name;
}

StoredFixture stored_fixture(const std::string& name) {
  return load_stored(std::filesystem::path(TP_TEST_DATA) / "logits" / name);
}

std::vector<StoredFixture> gguf_fixtures() {
  std::vector<StoredFixture> fixtures;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TP_TEST_DATA) / "gguf"))
    fixtures.push_back(load_stored(entry.path()));
  std::ranges::sort(fixtures, {}, &Fixture::name);
  return fixtures;
}

}  // namespace tp::reference
