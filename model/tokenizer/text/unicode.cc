#include "model/tokenizer/text/unicode.h"

#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <utf8proc.h>

namespace tp::unicode {
namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<signed char>(byte) >= 0; });
}

CodePoints decompose(std::string_view text, utf8proc_option_t options) {
  constexpr int kLongestDecomposition = 18;
  CodePoints result;
  result.reserve(text.size());
  for (const auto [code_point, bytes] : utf8::Characters(text)) {
    utf8proc_int32_t parts[kLongestDecomposition];
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts,
                                               kLongestDecomposition, options, nullptr);
    result.insert(result.end(), parts, parts + std::clamp<utf8proc_ssize_t>(count, 0, kLongestDecomposition));
  }
  return result;
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Puts each run of combining marks into canonical order. utf8proc's own sort takes quadratic time on long
// runs.
void order_marks(CodePoints& text) {
  const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
  const auto before = [](auto a, auto b) { return combining_class(a) < combining_class(b); };
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if(begin, text.end(), is_mark);
    const auto end = std::find_if_not(begin, text.end(), is_mark);
    std::stable_sort(begin, end, before);
    begin = end;
  }
}

utf8proc_category_t category_of(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

using Categories = std::uint32_t;  // a bit for each

constexpr Categories categories(std::initializer_list<utf8proc_category_t> list) {
  Categories bits = 0;
  for (const utf8proc_category_t category : list) bits |= Categories{1} << category;
  return bits;
}

constexpr Categories kLetters = categories({UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT,
                                            UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO});
constexpr Categories kMarks = categories({UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_ME});
constexpr Categories kOtherInWords =
    categories({UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_PC});
constexpr Categories kHidden = categories({UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CO});
constexpr Categories kNotPrinted =
    kHidden | categories({UTF8PROC_CATEGORY_CN, UTF8PROC_CATEGORY_CS, UTF8PROC_CATEGORY_ZL,
                          UTF8PROC_CATEGORY_ZP, UTF8PROC_CATEGORY_ZS});

bool is_in(char32_t code_point, Categories set) { return (set >> category_of(code_point) & 1U) != 0; }

template <class IsRemoved>
std::string without(std::string_view text, IsRemoved&& is_removed) {
  std::string out;
  out.reserve(text.size());
  for (const auto [code_point, bytes] : utf8::Characters(text)) {
    if (!is_removed(code_point)) utf8::append(out, code_point);
  }
  return out;
}

// Replaces characters by `map`, except `longer`, the only character that becomes several.
template <class Map>
std::string mapped(std::string_view text, Map map, char32_t longer, std::string_view several) {
  std::string out;
  out.reserve(text.size());
  for (const auto [code_point, bytes] : utf8::Characters(text)) {
    if (code_point == longer)
      out.append(several);
    else
      utf8::append(out, static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(code_point))));
  }
  return out;
}

}  // namespace

std::string normalize(std::string text, Form form) {
  if (is_ascii(text)) return text;
  const bool composes = form == Form::nfc || form == Form::nfkc;
  const bool is_compatible = form == Form::nfkc || form == Form::nfkd;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (is_compatible ? UTF8PROC_COMPAT : 0));
  CodePoints code_points = decompose(text, options);
  order_marks(code_points);
  if (composes) {
    const auto size =
        utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    code_points.resize(static_cast<std::size_t>(size));
  }
  text.clear();
  for (const utf8proc_int32_t code_point : code_points) utf8::append(text, static_cast<char32_t>(code_point));
  return text;
}

std::string to_lower(std::string_view text) {
  constexpr char32_t capital_i_with_dot = 0x130;
  return mapped(text, utf8proc_tolower, capital_i_with_dot, "i\xCC\x87");
}

std::string to_upper(std::string_view text) {
  constexpr char32_t sharp_s = 0xDF;
  return mapped(text, utf8proc_toupper, sharp_s, "SS");
}

std::string without_marks(std::string_view text) {
  return without(text, [](char32_t c) { return is_in(c, kMarks); });
}

std::string without_nonspacing_marks(std::string_view text) {
  return without(text, [](char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_MN; });
}

std::string stripped(std::string_view text, bool left, bool right) {
  if (left) text.remove_prefix(leading_white_space(text));
  if (right) text.remove_suffix(trailing_white_space(text));
  return std::string(text);
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_word_character(char32_t code_point) { return is_in(code_point, kLetters | kMarks | kOtherInWords); }

bool is_letter(char32_t code_point) { return is_in(code_point, kLetters); }

bool is_digit(char32_t code_point) { return category_of(code_point) == UTF8PROC_CATEGORY_ND; }

bool is_control_format_or_private(char32_t code_point) { return is_in(code_point, kHidden); }

bool is_cased(char32_t code_point) {
  const auto character = static_cast<utf8proc_int32_t>(code_point);
  return utf8proc_tolower(character) != character || utf8proc_toupper(character) != character;
}

bool is_printable(char32_t code_point) { return code_point == ' ' || !is_in(code_point, kNotPrinted); }

std::size_t first_cluster(std::string_view text) {
  utf8proc_int32_t state = 0;
  utf8::Character previous = utf8::first_character(text);
  std::size_t length = previous.length;
  while (length < text.size()) {
    const utf8::Character next = utf8::first_character(text.substr(length));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous.code_point),
                                         static_cast<utf8proc_int32_t>(next.code_point), &state))
      break;
    length += next.length;
    previous = next;
  }
  return length;
}

std::size_t leading_white_space(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const utf8::Character character = utf8::first_character(text.substr(length));
    if (!is_white_space(character.code_point)) break;
    length += character.length;
  }
  return length;
}

std::size_t trailing_white_space(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const char32_t last = utf8::last_character(rest);
    if (!is_white_space(last)) break;
    std::string encoded;
    utf8::append(encoded, last);
    rest.remove_suffix(encoded.size());
  }
  return text.size() - rest.size();
}

std::size_t display_width(char32_t code_point) {
  return static_cast<std::size_t>(std::max(0, utf8proc_charwidth(static_cast<utf8proc_int32_t>(code_point))));
}

}  // namespace tp::unicode
