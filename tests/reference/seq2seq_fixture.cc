#include "tests/reference/seq2seq_fixture.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

namespace tp::reference {
namespace {

nlohmann::json read_seq2seq_json(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream);
}

std::vector<Seq2SeqInput> read_seq2seq_rows(const std::filesystem::path& path) {
  const nlohmann::json batch = read_seq2seq_json(path);
  std::vector<Seq2SeqInput> rows;
  for (std::size_t row = 0; row < batch.at("ids").size(); ++row) {
    const auto mask = batch.at("attention_mask")[row].get<std::vector<std::size_t>>();
    Seq2SeqInput& input = rows.emplace_back();
    input.ids = batch.at("ids")[row].get<std::vector<TokenId>>();
    input.ids.resize(static_cast<std::size_t>(std::count(mask.begin(), mask.end(), 1U)));
    input.decoder_ids = batch.at("decoder_ids")[row].get<std::vector<TokenId>>();
  }
  return rows;
}

Seq2SeqFixture load_seq2seq(const std::filesystem::path& folder) {
  const nlohmann::json input = read_seq2seq_json(folder / "input.json");
  return {.name = folder.filename().string(),
          .folder = folder,
          .input = {input.at("ids").get<std::vector<TokenId>>(),
                    input.at("decoder_ids").get<std::vector<TokenId>>()},
          .encoder = read_npy(folder / "expected_encoder.npy"),
          .logits = read_npy(folder / "expected_logits.npy"),
          .greedy = read_seq2seq_json(folder / "greedy.json").at("ids").get<std::vector<TokenId>>(),
          .greedy_logits = read_npy(folder / "greedy_logits.npy"),
          .batch = read_seq2seq_rows(folder / "batch.json"),
          .batch_encoder = read_npy(folder / "batch_encoder.npy"),
          .batch_logits = read_npy(folder / "batch_logits.npy")};
}

}  // namespace

std::vector<Seq2SeqFixture> seq2seq_fixtures() {
  std::filesystem::path all = std::filesystem::path(TP_SHARED_FIXTURES) / "seq2seq";
  if (!std::filesystem::exists(all)) all = std::filesystem::path(TP_TEST_DATA) / "seq2seq";
  std::vector<Seq2SeqFixture> fixtures;
  for (const auto& entry : std::filesystem::directory_iterator(all))
    fixtures.push_back(load_seq2seq(entry.path()));
  std::ranges::sort(fixtures, {}, &Seq2SeqFixture::name);
  return fixtures;
}

Seq2SeqFixture seq2seq_fixture(const std::string& name) {
  return load_seq2seq(std::filesystem::path(TP_TEST_DATA) / "seq2seq" / name);
}

}  // namespace tp::reference
