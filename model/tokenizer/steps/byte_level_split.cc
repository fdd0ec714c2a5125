#include "model/tokenizer/steps/byte_level_split.h"

#include "model/tokenizer/steps/byte_level.h"
#include "model/tokenizer/steps/rewrite.h"

namespace tp {

ByteLevelSplit::ByteLevelSplit(bool add_prefix_space, bool split_words)
    : add_prefix_space_(add_prefix_space) {
  if (split_words) words_.emplace(Regex::from_oniguruma(kGpt2Pattern), SplitBehavior::isolated, false);
}

void ByteLevelSplit::operator()(PreTokens& tokens) const {
  if (add_prefix_space_) {
    rewrite_pieces(tokens, [](std::string_view piece, bool, std::string& out) {
      if (!piece.starts_with(' ')) out.push_back(' ');
      out.append(piece);
    });
  }
  if (words_) (*words_)(tokens);
  rewrite_pieces(
      tokens, [](std::string_view piece, bool, std::string& out) { byte_level::append_encoded(out, piece); });
}

}  // namespace tp
