#include "tests/model/tokenizer/naive_bpe.h"

#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace tp::testing {
namespace {

std::vector<std::string> characters_of(const nlohmann::json& model, std::string_view text) {
  std::vector<std::string> symbols;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const std::string character(text.substr(begin, end - begin));
    if (model["vocab"].contains(character)) {
      symbols.push_back(character);
    } else {
      for (const char byte : character)
        symbols.push_back(fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte)));
    }
    begin = end;
  }
  return symbols;
}

}  // namespace

std::vector<TokenId> naive_bpe(const nlohmann::json& model, std::string_view text) {
  std::map<std::string, std::size_t> ranks;
  for (const nlohmann::json& merge : model["merges"]) ranks[merge.get<std::string>()] = ranks.size();
  std::vector<std::string> symbols = characters_of(model, text);
  while (true) {
    std::size_t best = symbols.size();
    std::size_t best_rank = ranks.size();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto rank = ranks.find(symbols[i] + " " + symbols[i + 1]);
      if (rank == ranks.end() || rank->second >= best_rank) continue;
      best = i;
      best_rank = rank->second;
    }
    if (best == symbols.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& symbol : symbols) ids.push_back(model["vocab"][symbol].get<TokenId>());
  return ids;
}

std::vector<TokenId> merged_by_rank(const std::map<std::string, TokenId>& ranks, const std::string& word) {
  std::vector<std::string> parts;
  for (const char byte : word) parts.emplace_back(1, byte);
  while (true) {
    TokenId best = std::numeric_limits<TokenId>::max();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = ranks.find(parts[i] + parts[i + 1]);
      if (rank != ranks.end() && rank->second < best) std::tie(best, place) = std::pair(rank->second, i);
    }
    if (best == std::numeric_limits<TokenId>::max()) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& part : parts) ids.push_back(ranks.at(part));
  return ids;
}

}  // namespace tp::testing
