#include "model/tokenizer/models/unigram.h"

#include "model/tokenizer/text/utf8.h"

#include <algorithm>

namespace tp {
namespace {

constexpr double kUnknownPenalty = 10.0;

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, const Options& options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  for (std::size_t id = 0; id < vocabulary_.size(); ++id) {
    const auto text = vocabulary_.find_text(static_cast<TokenId>(id));
    if (text && !text->empty() && scores_[id] != kNotInTexts) tokens_.insert(*text, id);
  }
  const auto lowest = std::min_element(scores_.begin(), scores_.end());
  unknown_score_ = options_.lowest_score.value_or(lowest == scores_.end() ? 0.0 : *lowest) - kUnknownPenalty;
  if (options_.byte_fallback) byte_fallback_ = ByteFallback(vocabulary_);
}

std::size_t Unigram::go_on(std::string_view piece, std::size_t place, Section& section) const {
  const std::string_view rest = piece.substr(place);
  const std::size_t character = utf8::first_character(rest).length;
  const double score_here = section.at(place).score;
  bool is_token = false;
  const auto offer = [&](std::size_t length, double score, TokenId id) {
    if (place + length > section.reach()) section.best.resize(place + length - section.begin + 1);
    Best& way = section.at(place + length);
    const double sum = score_here + score;
    if (way.begin == kNoBegin || sum > way.score)
      way = {options_.single_precision ? static_cast<float>(sum) : sum, static_cast<std::uint32_t>(place),
             id};
  };
  tokens_.for_each_prefix_of(rest, [&](const StringSet::Match& match) {
    is_token |= match.length == character;
    offer(match.length, scores_[match.value], static_cast<TokenId>(match.value));
  });
  if (!is_token) offer(character, unknown_score_, kNoToken);
  return character;
}

// If no token reaches beyond a place, all segmentations meet there, and the text before the place is final.
// The exception is a place after an unknown character, because consecutive unknown characters are encoded
// together.
void Unigram::encode(std::string_view piece, std::vector<TokenId>& out) const {
  constexpr std::size_t usual_reach = 64;
  Section section;
  section.best.reserve(std::min(piece.size() + 1, usual_reach));
  for (std::size_t place = 0; place < piece.size();) {
    const bool all_meet = place == section.reach() && section.at(place).id != kNoToken;
    if (all_meet) {
      append(piece, section, out);
      const double score = section.at(place).score;
      section.best.assign(1, Best{.score = score});
      section.begin = place;
    }
    place += go_on(piece, place, section);
  }
  append(piece, section, out);
}

void Unigram::append(std::string_view piece, const Section& section, std::vector<TokenId>& out) const {
  std::vector<std::size_t> ends;  // ends of the tokens, last token first
  for (std::size_t end = section.reach(); end > section.begin; end = section.at(end).begin)
    ends.push_back(end);
  while (!ends.empty()) {
    const Best& token = section.at(ends.back());
    if (token.id != kNoToken) {
      out.push_back(token.id);
      ends.pop_back();
      continue;
    }
    std::size_t end = token.begin;
    for (; !ends.empty() && section.at(ends.back()).id == kNoToken; ends.pop_back()) end = ends.back();
    if (!byte_fallback_.append(piece.substr(token.begin, end - token.begin), out) && options_.unknown)
      out.push_back(*options_.unknown);
  }
}

}  // namespace tp
