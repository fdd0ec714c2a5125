#include "model/tokenizer/unigram.h"

#include "model/tokenizer/utf8.h"

#include <algorithm>

namespace tp {
namespace {

constexpr double kUnknownPenalty = 10.0;

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, const Options& options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  for (std::size_t id = 0; id < vocabulary_.size(); ++id) {
    const auto text = vocabulary_.text_of(static_cast<TokenId>(id));
    if (text && !text->empty() && scores_[id] != kNotInTexts) tokens_.insert(*text, id);
  }
  const auto lowest = std::min_element(scores_.begin(), scores_.end());
  unknown_score_ = options_.lowest_score.value_or(lowest == scores_.end() ? 0.0 : *lowest) - kUnknownPenalty;
  if (options_.byte_fallback) byte_fallback_ = ByteFallback(vocabulary_);
}

std::vector<Unigram::Best> Unigram::best_ways(std::string_view piece) const {
  std::vector<Best> best(piece.size() + 1);
  for (std::size_t place = 0; place < piece.size();) {
    const std::string_view rest = piece.substr(place);
    const std::size_t character = utf8::first_character(rest).length;
    bool is_token = false;
    const auto offer = [&](std::size_t length, double score, TokenId id) {
      Best& way = best[place + length];
      const double sum = best[place].score + score;
      if (way.begin == kNoBegin || sum > way.score)
        way = {options_.single_precision ? static_cast<float>(sum) : sum, place, id};
    };
    tokens_.for_each_prefix_of(rest, [&](const StringSet::Match& match) {
      is_token |= match.length == character;
      offer(match.length, scores_[match.value], static_cast<TokenId>(match.value));
    });
    if (!is_token) offer(character, unknown_score_, kNoToken);
    place += character;
  }
  return best;
}

void Unigram::encode(std::string_view piece, std::vector<TokenId>& out) const {
  const std::vector<Best> best = best_ways(piece);
  std::vector<std::size_t> ends;  // of the tokens, the last one first
  for (std::size_t end = piece.size(); end > 0; end = best[end].begin) ends.push_back(end);
  while (!ends.empty()) {
    const std::size_t begin = best[ends.back()].begin;
    if (best[ends.back()].id != kNoToken) {
      out.push_back(best[ends.back()].id);
      ends.pop_back();
      continue;
    }
    std::size_t end = begin;
    for (; !ends.empty() && best[ends.back()].id == kNoToken; ends.pop_back()) end = ends.back();
    if (!byte_fallback_.append(piece.substr(begin, end - begin), out) && options_.unknown)
      out.push_back(*options_.unknown);
  }
}

}  // namespace tp
