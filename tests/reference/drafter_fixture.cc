#include "tests/reference/drafter_fixture.h"

#include "tests/reference/fixture.h"
#include "tests/reference/json_file.h"

#include <algorithm>

namespace tp::reference {
namespace {

std::vector<TokenId> ids_of(const nlohmann::json& entry, const char* key) {
  return entry.at(key).get<std::vector<TokenId>>();
}

ExpectedDraft draft_of(const nlohmann::json& entry, std::size_t columns) {
  ExpectedDraft draft{.context = entry.at("context").get<std::size_t>(),
                      .next = entry.at("next").get<TokenId>(),
                      .ids = ids_of(entry, "ids"),
                      .rows = {},
                      .confidence = entry.value("confidence_logits", std::vector<double>())};
  draft.rows = row_table(entry.at("rows"), draft.ids.size(), columns);
  return draft;
}

std::map<std::size_t, ExpectedRows> streams_of(const nlohmann::json& rows, std::size_t positions,
                                               std::size_t columns) {
  std::map<std::size_t, nlohmann::json> by_place;
  for (const nlohmann::json& row : rows) by_place[row.at("place").get<std::size_t>()].push_back(row);
  std::map<std::size_t, ExpectedRows> streams;
  for (const auto& [place, own] : by_place) streams[place] = row_table(own, positions, columns);
  return streams;
}

}  // namespace

std::vector<TokenId> DrafterFixture::text(std::size_t size) const {
  std::vector<TokenId> tokens = prompt;
  tokens.insert(tokens.end(), greedy.begin(), greedy.end());
  tokens.resize(std::min(size, tokens.size()));
  return tokens;
}

DrafterFixture drafter_fixture(const std::string& name) {
  const std::filesystem::path folder = seeded_folder("drafters", name);
  const nlohmann::json expected = read_json(folder / "expected.json");
  DrafterFixture fixture{.name = name,
                         .target = folder / "target",
                         .draft = folder / "draft",
                         .prompt = ids_of(read_json(folder / "prompt.json"), "ids"),
                         .greedy = ids_of(expected, "target_greedy_ids"),
                         .vocab = expected.at("vocab").get<std::size_t>(),
                         .draft_vocab = expected.at("draft_vocab").get<std::size_t>(),
                         .places = expected.at("aux_places").get<std::vector<std::size_t>>(),
                         .streams = {},
                         .prefill = {},
                         .drafts = {},
                         .rounds = {}};
  const auto hidden = read_json(fixture.target / "config.json").at("hidden_size").get<std::size_t>();
  fixture.streams = streams_of(expected.at("aux"), fixture.prompt.size() + fixture.greedy.size(), hidden);
  if (expected.contains("prefill"))
    fixture.prefill = row_table(expected.at("prefill"), fixture.prompt.size(), fixture.draft_vocab);
  for (const nlohmann::json& entry : expected.at(expected.contains("chains") ? "chains" : "blocks"))
    fixture.drafts.push_back(draft_of(entry, fixture.draft_vocab));
  for (const nlohmann::json& entry : expected.at("speculative"))
    fixture.rounds.push_back({entry.at("context").get<std::size_t>(), ids_of(entry, "drafted"),
                              entry.at("accepted").get<std::size_t>()});
  return fixture;
}

std::vector<DrafterFixture> drafter_fixtures() {
  std::vector<DrafterFixture> fixtures;
  for (const auto& entry : std::filesystem::directory_iterator(seeded_folder("drafters")))
    fixtures.push_back(drafter_fixture(entry.path().filename()));
  std::ranges::sort(fixtures, {}, &DrafterFixture::name);
  return fixtures;
}

}  // namespace tp::reference
