#include "tests/reference/encoder_fixture.h"

#include "tests/reference/fixture.h"
#include "tests/reference/json_file.h"

#include <algorithm>

namespace tp::reference {
namespace {

std::vector<std::uint8_t> bytes_or_none(const nlohmann::json& object, const char* name) {
  if (!object.contains(name) || object.at(name).is_null()) return {};
  return object.at(name).get<std::vector<std::uint8_t>>();
}

template <class T>
std::optional<T> value_if_there(const nlohmann::json& object, const char* name) {
  if (!object.contains(name)) return std::nullopt;
  return object.at(name).get<T>();
}

std::vector<EncoderInput> read_rows(const std::filesystem::path& path) {
  const nlohmann::json batch = read_json(path);
  std::vector<EncoderInput> rows;
  for (std::size_t row = 0; row < batch.at("ids").size(); ++row) {
    const auto mask = batch.at("attention_mask")[row].get<std::vector<std::size_t>>();
    const auto tokens = static_cast<std::size_t>(std::count(mask.begin(), mask.end(), 1U));
    const auto of_row = [&](const char* name) {
      if (!batch.contains(name) || batch.at(name).is_null()) return std::vector<std::uint8_t>();
      auto all = batch.at(name)[row].get<std::vector<std::uint8_t>>();
      all.resize(tokens);
      return all;
    };
    EncoderInput& input = rows.emplace_back();
    input.ids = batch.at("ids")[row].get<std::vector<TokenId>>();
    input.ids.resize(tokens);
    input.types = of_row("token_type_ids");
    input.is_global = of_row("global_attention_mask");
  }
  return rows;
}

// Returns the expected results of a model with adapters: without an adapter, or with the adapter for `task`.
nlohmann::json of_task(nlohmann::json all, const std::string& task) {
  if (!all.contains("tasks")) return all;
  for (nlohmann::json& one : all.at("tasks")) {
    const nlohmann::json& name = one.at("task");
    if (task.empty() ? !name.is_null() : name != task) continue;
    one["hidden"] = all.at("hidden");
    return one;
  }
  return {};
}

EncoderFixture load_encoder(const std::filesystem::path& folder, const std::string& task) {
  const nlohmann::json input = read_json(folder / "input.json");
  const nlohmann::json expected = of_task(read_json(folder / "expected.json"), task);
  const auto hidden_size = expected.at("hidden").get<std::size_t>();
  const auto vector_of = [&](const char* name) { return value_if_there<std::vector<float>>(expected, name); };
  const auto vectors_of = [&](const char* name) {
    return value_if_there<std::vector<std::vector<float>>>(expected, name)
        .value_or(std::vector<std::vector<float>>());
  };
  EncoderFixture fixture{
      .name = folder.filename().string(),
      .folder = folder,
      .input = {input.at("ids").get<std::vector<TokenId>>(), bytes_or_none(input, "token_type_ids"),
                bytes_or_none(input, "global_attention_mask")},
      .hidden = {},
      .logits = {},
      .labels = vector_of("labels"),
      .pooler = vector_of("pooler"),
      .embedding = vector_of("embedding"),
      .batch = read_rows(folder / "batch.json"),
      .batch_hidden = {},
      .batch_embedding = vectors_of("batch_embedding"),
      .batch_labels = vectors_of("batch_labels")};
  const std::size_t tokens = fixture.input.ids.size();
  fixture.hidden = row_table(expected.at("last_hidden_state"), tokens, hidden_size);
  if (expected.contains("logits"))
    fixture.logits = row_table(expected.at("logits"), tokens, expected.at("vocab").get<std::size_t>());
  const bool has_batch = expected.contains("batch_last_hidden_state");
  for (std::size_t row = 0; has_batch && row < fixture.batch.size(); ++row)
    fixture.batch_hidden.emplace_back(row_table(rows_of_sequence(row, expected.at("batch_last_hidden_state")),
                                                fixture.batch[row].ids.size(), hidden_size));
  return fixture;
}

}  // namespace

std::vector<EncoderFixture> encoder_fixtures() {
  std::vector<EncoderFixture> fixtures;
  for (const auto& [name, architecture] : fixture_architectures("encoders"))
    fixtures.push_back(encoder_fixture(name));
  return fixtures;
}

EncoderFixture encoder_fixture(const std::string& name, const std::string& task) {
  return load_encoder(seeded_folder("encoders", name), task);
}

}  // namespace tp::reference
