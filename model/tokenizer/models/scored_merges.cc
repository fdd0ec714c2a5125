#include "model/tokenizer/models/scored_merges.h"

#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace tp {

std::vector<Bpe::Merge> scored_merges(const std::vector<ScoredPiece>& tokens) {
  std::vector<float> scores;
  std::unordered_map<std::string_view, TokenId> ids;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id].merges) continue;
    scores.push_back(tokens[id].score);
    ids.emplace(tokens[id].text, static_cast<TokenId>(id));
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<Bpe::Merge> merges;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id].text;
    if (!tokens[id].merges) continue;
    const auto rank = std::lower_bound(scores.begin(), scores.end(), tokens[id].score, std::greater<>());
    for (std::size_t cut = 0; cut < token.size();) {
      cut += utf8::first_character(token.substr(cut)).length;
      if (cut == token.size()) break;
      const auto left = ids.find(token.substr(0, cut));
      const auto right = ids.find(token.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({left->second, right->second, static_cast<TokenId>(id),
                        static_cast<MergeTable::Rank>(rank - scores.begin())});
    }
  }
  return merges;
}

Bpe bpe_of_ranks(const std::vector<std::string>& ranked, std::size_t first) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  std::vector<ScoredPiece> scored(first);
  for (const std::string& text : ranked) {
    const auto id = static_cast<TokenId>(scored.size());
    tokens.emplace_back(text, id);
    scored.push_back({text, -static_cast<float>(id), true});
  }
  return Bpe(Vocabulary(tokens), scored_merges(scored), {.unknown = std::nullopt, .ignore_merges = true});
}

}  // namespace tp
