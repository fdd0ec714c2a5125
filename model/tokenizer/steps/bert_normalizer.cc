#include "model/tokenizer/steps/bert_normalizer.h"

#include "model/tokenizer/text/unicode.h"
#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <array>

namespace tp {
namespace {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

// The blocks of CJK ideographs. In the `tokenizers` library the sixth begins 0x100 characters too late, and
// models rely on its ids.
constexpr std::array<CharacterRange, 8> kChinese = {{{0x4E00, 0x9FFF},
                                                     {0x3400, 0x4DBF},
                                                     {0x20000, 0x2A6DF},
                                                     {0x2A700, 0x2B73F},
                                                     {0x2B740, 0x2B81F},
                                                     {0x2B920, 0x2CEAF},
                                                     {0xF900, 0xFAFF},
                                                     {0x2F800, 0x2FA1F}}};

bool is_chinese(char32_t code_point) {
  return std::any_of(kChinese.begin(), kChinese.end(), [&](const CharacterRange& range) {
    return code_point >= range.first && code_point <= range.last;
  });
}

bool is_white_space_of_bert(char32_t code_point) {
  return code_point == '\t' || code_point == '\n' || code_point == '\r';
}

// Control characters, format characters and private-use characters are removed.
bool is_removed(char32_t code_point) {
  constexpr char32_t replacement = 0xFFFD;
  if (is_white_space_of_bert(code_point)) return false;
  return code_point == replacement || unicode::is_control_format_or_private(code_point);
}

}  // namespace

std::string BertNormalizer::with_clean_characters(const std::string& text) const {
  std::string out;
  out.reserve(text.size());
  for (const auto [character, bytes] : utf8::Characters(text)) {
    if (options_.clean_text && is_removed(character)) continue;
    if (options_.clean_text && unicode::is_white_space(character))
      out.push_back(' ');
    else if (options_.spaces_around_chinese && is_chinese(character))
      out.append(" ").append(bytes).append(" ");
    else
      out.append(bytes);
  }
  return out;
}

std::string BertNormalizer::operator()(std::string text) const {
  text = with_clean_characters(text);
  if (options_.strip_accents)
    text = unicode::without_nonspacing_marks(unicode::normalize(std::move(text), unicode::Form::nfd));
  if (options_.lowercase) text = unicode::to_lower(text);
  return text;
}

}  // namespace tp
