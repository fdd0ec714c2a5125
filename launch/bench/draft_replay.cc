#include "launch/bench/draft_replay.h"

#include "runtime/api/request_fields.h"
#include "tp/error.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

std::vector<TokenId> joined(std::vector<TokenId> first, const std::vector<TokenId>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

RealText real_text_of(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line);
  RealText text{.name = json.at("name").get<std::string>(),
                .prompt = json.at("prompt_ids").get<std::vector<TokenId>>(),
                .tokens = json.at("token_ids").get<std::vector<TokenId>>()};
  text.request.sampling.temperature = 0.0F;
  if (json.contains("sampling")) set_fields(json["sampling"], text.request);
  require<RequestError>(!text.prompt.empty() && text.tokens.size() >= 2,
                        "expected a prompt and at least 2 tokens after it, found {} and {}",
                        text.prompt.size(), text.tokens.size());
  return text;
}

}  // namespace

std::vector<RealText> read_real_texts(const std::filesystem::path& file) {
  std::ifstream in(file);
  require<RequestError>(in.good(), "cannot read {}: expected a file of texts; check --acceptance-trace",
                        file.string());
  std::vector<RealText> texts;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      texts.push_back(real_text_of(line));
    } catch (const std::exception& error) {
      throw_error<RequestError>(
          "cannot use line {} of {}: {} (expected {{\"name\": \"...\", \"prompt_ids\": [...], \"token_ids\": "
          "[...]}}); correct it, or leave it out",
          number, file.string(), error.what());
    }
  }
  require<RequestError>(!texts.empty(), "no texts in {}: expected a JSON object in each line; add one",
                        file.string());
  return texts;
}

void ReplayedTexts::add(std::vector<TokenId> prompt, std::vector<TokenId> tokens, const RealText& real) {
  Pair pair{
      .real = joined(real.prompt, real.tokens), .replayed = joined(prompt, tokens), .request = real.request};
  require<RequestError>(pair.real.size() == pair.replayed.size(),
                        "cannot replay {}: expected {} tokens, found {}; this is a bug in tp-infer",
                        real.name, pair.real.size(), pair.replayed.size());
  pairs_[std::move(prompt)] = std::move(pair);
}

const ReplayedTexts::Pair* ReplayedTexts::find(std::span<const TokenId> prompt) const {
  const auto found = pairs_.find({prompt.begin(), prompt.end()});
  return found == pairs_.end() ? nullptr : &found->second;
}

ReplaySource::ReplaySource(std::shared_ptr<const ReplayedTexts> texts, std::unique_ptr<DraftSource> source,
                           std::size_t vocab_size)
    : texts_(std::move(texts)), source_(std::move(source)), vocab_size_(vocab_size) {}

// Returns a draft for each query whose text is a replayed one. Other queries get empty drafts.
std::vector<Draft> ReplaySource::draft(std::span<const DraftQuery> queries) {
  std::vector<Draft> drafts(queries.size());
  std::vector<DraftQuery> known;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const ReplayedTexts::Pair* const pair = follow(queries[i]);
    if (pair == nullptr) continue;
    known.push_back(real_query(queries[i], *pair));
    places.push_back(i);
  }
  if (known.empty()) return drafts;
  std::vector<Draft> real = source_->draft(known);
  for (std::size_t i = 0; i < known.size(); ++i) {
    const ReplayedTexts::Pair& pair = *sequences_.at(known[i].sequence);
    const std::size_t size = known[i].tokens.size();
    Draft& draft = drafts[places[i]] = std::move(real[i]);
    draft.shorten_to(pair.replayed.size() - size);
    for (std::size_t j = 0; j < draft.tokens.size(); ++j) {
      const bool is_right = draft.tokens[j] == pair.real[size + j];
      const auto own = static_cast<std::size_t>(pair.replayed[size + j]);
      draft.tokens[j] = static_cast<TokenId>(is_right ? own : (own + 1) % vocab_size_);
    }
  }
  return drafts;
}

DraftQuery ReplaySource::real_query(const DraftQuery& query, const ReplayedTexts::Pair& pair) {
  DraftQuery real = query;
  real.tokens = std::span(pair.real).first(query.tokens.size());
  real.request = &pair.request;
  real.seed = pair.request.sampling.seed.value_or(0);
  real.sample = 0;
  return real;
}

void ReplaySource::learn_from(const DraftQuery& text) {
  const ReplayedTexts::Pair* const pair = follow(text);
  if (pair != nullptr) source_->learn_from(real_query(text, *pair));
}

const ReplayedTexts::Pair* ReplaySource::follow(const DraftQuery& query) {
  const auto [known, is_new] = sequences_.try_emplace(query.sequence);
  if (is_new) known->second = texts_->find(query.tokens.first(query.prompt_tokens));
  const ReplayedTexts::Pair* const pair = known->second;
  const std::size_t size = query.tokens.size();
  const bool follows = pair != nullptr && size <= pair->replayed.size() &&
                       std::ranges::equal(query.tokens, std::span(pair->replayed).first(size));
  return follows ? pair : nullptr;
}

void ReplaySource::end(std::uint64_t sequence) {
  sequences_.erase(sequence);
  source_->end(sequence);
}

}  // namespace tp
