#include "tests/reference/encoder_fixture.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

namespace tp::reference {
namespace {

nlohmann::json read_document(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

std::vector<std::uint8_t> bytes_or_none(const nlohmann::json& object, const char* name) {
  if (!object.contains(name) || object.at(name).is_null()) return {};
  return object.at(name).get<std::vector<std::uint8_t>>();
}

std::optional<NpyArray> read_if_there(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return read_npy(path);
}

std::vector<EncoderInput> read_rows(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  const nlohmann::json batch = read_document(path);
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

EncoderFixture load_encoder(const std::filesystem::path& folder) {
  const nlohmann::json input = read_document(folder / "input.json");
  return {.name = folder.filename().string(),
          .folder = folder,
          .input = {input.at("ids").get<std::vector<TokenId>>(), bytes_or_none(input, "token_type_ids"),
                    bytes_or_none(input, "global_attention_mask")},
          .hidden = read_npy(folder / "expected_last_hidden_state.npy"),
          .logits = read_if_there(folder / "expected_logits.npy"),
          .pooler = read_if_there(folder / "expected_pooler.npy"),
          .embedding = read_if_there(folder / "expected_embedding.npy"),
          .batch = read_rows(folder / "batch.json"),
          .batch_hidden = read_if_there(folder / "batch_last_hidden_state.npy"),
          .batch_embedding = read_if_there(folder / "batch_embedding.npy"),
          .batch_logits = read_if_there(folder / "batch_logits.npy")};
}

}  // namespace

std::vector<EncoderFixture> encoder_fixtures() {
  std::filesystem::path all = std::filesystem::path(TP_SHARED_FIXTURES) / "encoders";
  if (!std::filesystem::exists(all)) all = std::filesystem::path(TP_TEST_DATA) / "encoders";
  std::vector<EncoderFixture> fixtures;
  for (const auto& entry : std::filesystem::directory_iterator(all))
    fixtures.push_back(load_encoder(entry.path()));
  std::ranges::sort(fixtures, {}, &EncoderFixture::name);
  return fixtures;
}

EncoderFixture encoder_fixture(const std::string& name) {
  return load_encoder(std::filesystem::path(TP_TEST_DATA) / "encoders" / name);
}

}  // namespace tp::reference
