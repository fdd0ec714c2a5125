#include "runtime/text/bad_words.h"

#include <algorithm>
#include <set>
#include <string>

namespace tp {

std::vector<std::vector<TokenId>> bad_words_of(const Request& request, const Tokenizer* tokenizer) {
  std::vector<std::vector<TokenId>> words = request.bad_words_ids;
  std::set<std::vector<TokenId>> known(words.begin(), words.end());
  for (const std::string& text : request.bad_words) {
    const std::string word = text.substr(std::min(text.find_first_not_of(' '), text.size()));
    for (const std::string& form : {word, " " + word}) {
      std::vector<TokenId> ids = tokenizer->encode(form, AddSpecial::no);
      if (!ids.empty() && known.insert(ids).second) words.push_back(std::move(ids));
    }
  }
  return words;
}

void add_default_bad_words(const GenerationDefaults& defaults, std::span<const TokenId> ends,
                           std::vector<std::vector<TokenId>>& words) {
  for (const std::vector<TokenId>& word : defaults.bad_words) {
    const bool is_end = word.size() == 1 && std::ranges::find(ends, word.front()) != ends.end();
    if (!word.empty() && !is_end) words.push_back(word);
  }
}

}  // namespace tp
