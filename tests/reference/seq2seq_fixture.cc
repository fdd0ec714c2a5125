#include "tests/reference/seq2seq_fixture.h"

#include "tests/reference/fixture.h"
#include "tests/reference/json_file.h"

#include <algorithm>

namespace tp::reference {
namespace {

std::vector<Seq2SeqInput> read_seq2seq_rows(const std::filesystem::path& path) {
  const nlohmann::json batch = read_json(path);
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
  const nlohmann::json input = read_json(folder / "input.json");
  const nlohmann::json expected = read_json(folder / "expected.json");
  const auto hidden_size = expected.at("hidden").get<std::size_t>();
  const auto vocab = expected.at("vocab").get<std::size_t>();
  Seq2SeqFixture fixture{.name = folder.filename().string(),
                         .folder = folder,
                         .input = {input.at("ids").get<std::vector<TokenId>>(),
                                   input.at("decoder_ids").get<std::vector<TokenId>>()},
                         .encoder = {},
                         .logits = {},
                         .greedy_start = expected.at("greedy_start").get<TokenId>(),
                         .greedy = expected.at("greedy_ids").get<std::vector<TokenId>>(),
                         .greedy_rows = {},
                         .batch = read_seq2seq_rows(folder / "batch.json"),
                         .batch_encoder = {},
                         .batch_logits = {}};
  const Seq2SeqInput& own = fixture.input;
  fixture.encoder = row_table(expected.at("encoder"), own.ids.size(), hidden_size);
  fixture.logits = row_table(expected.at("logits"), own.decoder_ids.size(), vocab);
  fixture.greedy_rows = row_table(rows_from(0, expected.at("greedy")), fixture.greedy.size(), vocab);
  for (std::size_t row = 0; row < fixture.batch.size(); ++row) {
    const Seq2SeqInput& of = fixture.batch[row];
    fixture.batch_encoder.emplace_back(
        row_table(rows_of_sequence(row, expected.at("batch_encoder")), of.ids.size(), hidden_size));
    fixture.batch_logits.emplace_back(
        row_table(rows_of_sequence(row, expected.at("batch_logits")), of.decoder_ids.size(), vocab));
  }
  return fixture;
}

}  // namespace

std::vector<Seq2SeqFixture> seq2seq_fixtures() {
  std::vector<Seq2SeqFixture> fixtures;
  for (const auto& [name, architecture] : fixture_architectures("seq2seq"))
    fixtures.push_back(seq2seq_fixture(name));
  return fixtures;
}

Seq2SeqFixture seq2seq_fixture(const std::string& name) {
  return load_seq2seq(seeded_folder("seq2seq", name));
}

}  // namespace tp::reference
