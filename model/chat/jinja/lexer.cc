#include "model/chat/jinja/lexer.h"

#include "model/tokenizer/text/unicode.h"
#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The length of the leading white space.
std::size_t leading_space(std::string_view text) { return unicode::leading_white_space(text); }

// Converts all line ends to \n, and drops the last one.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Longer symbols first.
constexpr std::array<std::string_view, 27> kSymbols = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "*",
                                                       "/",  "%",  "~",  "(",  ")",  "[",  "]", "{", "}",
                                                       ">",  "<",  "=",  ".",  ":",  "|",  ",", ";", "!"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalized(source)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) lex_outside();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  bool starts(std::string_view what) const { return rest().starts_with(what); }

  void advance(std::size_t length) {
    for (const char c : rest().substr(0, length)) {
      if (c == '\n')
        position_ = {position_.line + 1, 1};
      else if ((c & 0xC0) != 0x80)
        ++position_.column;
    }
    at_ += length;
  }

  void add(TokenKind kind, std::string value) { tokens_.push_back({kind, std::move(value), position_}); }

  [[noreturn]] void fail(const std::string& what) const { throw SyntaxError(position_, what); }

  // Reads the text up to the next tag, then the tag.
  void lex_outside() {
    std::size_t begin = at_;
    do {
      begin = std::min(text_.find('{', begin), text_.size());
      const char next = begin + 1 < text_.size() ? text_[begin + 1] : ' ';
      if (next == '{' || next == '%' || next == '#') break;
      if (begin < text_.size()) ++begin;
    } while (begin < text_.size());
    const char kind = begin < text_.size() ? text_[begin + 1] : ' ';
    const char sign = begin + 2 < text_.size() ? text_[begin + 2] : ' ';
    add_text(text_.substr(at_, begin - at_), kind, sign);
    advance(begin - at_);
    if (kind == ' ') return;
    const std::size_t opening = sign == '-' || sign == '+' ? 3 : 2;
    if (kind == '#')
      skip_comment(opening);
    else if (kind == '{')
      lex_tag(opening, TokenKind::print_begin, TokenKind::print_end, "}}");
    else if (!lex_raw(opening))
      lex_tag(opening, TokenKind::block_begin, TokenKind::block_end, "%}");
  }

  // Adds the text before a tag, without the white space that the tag's sign strips.
  void add_text(std::string text, char tag, char sign) {
    if (tag != ' ' && sign == '-') {
      text = unicode::stripped(text, false, true);
    } else if ((tag == '%' || tag == '#') && sign != '+') {
      const std::size_t line = text.rfind('\n') + 1;  // 0 if there is no newline
      const bool is_line_start = line > 0 || at_ == 0 || text_[at_ - 1] == '\n';
      if (is_line_start && leading_space(std::string_view(text).substr(line)) == text.size() - line)
        text.resize(line);
    }
    if (!text.empty()) add(TokenKind::text, std::move(text));
  }

  // Skips the white space that is dropped after a block or comment.
  void skip_after(bool has_minus, bool has_plus, bool trims_newline) {
    if (has_minus)
      advance(leading_space(rest()));
    else if (trims_newline && !has_plus && starts("\n"))
      advance(1);
  }

  void skip_comment(std::size_t opening) {
    const std::size_t end = text_.find("#}", at_ + opening);
    if (end == std::string::npos) fail("the comment that begins here has no end");
    const char sign = end > at_ + opening ? text_[end - 1] : ' ';
    advance(end + 2 - at_);
    skip_after(sign == '-', sign == '+', true);
  }

  // The length of `{% WORD %}` with its signs at `at`; nullopt if the tag is not there.
  std::optional<std::size_t> length_of_word_tag(std::size_t at, std::string_view word, char& sign_before,
                                                char& sign_after) const {
    const std::string_view text = std::string_view(text_).substr(at);
    if (!text.starts_with("{%")) return std::nullopt;
    std::size_t length = 2;
    const auto take_sign = [&] {
      const char c = length < text.size() ? text[length] : ' ';
      if (c != '-' && c != '+') return ' ';
      ++length;
      return c;
    };
    sign_before = take_sign();
    length += leading_space(text.substr(length));
    if (!text.substr(length).starts_with(word)) return std::nullopt;
    length += word.size();
    length += leading_space(text.substr(length));
    sign_after = take_sign();
    if (!text.substr(length).starts_with("%}")) return std::nullopt;
    return length + 2;
  }

  // Reads {% raw %} text {% endraw %}, whose content is always text.
  bool lex_raw(std::size_t) {
    char before = ' ';
    char after = ' ';
    const auto opening = length_of_word_tag(at_, "raw", before, after);
    if (!opening) return false;
    const Position begin = position_;
    advance(*opening);
    skip_after(after == '-', false, false);
    for (std::size_t end = at_; (end = text_.find("{%", end)) != std::string::npos; end += 2) {
      const auto closing = length_of_word_tag(end, "endraw", before, after);
      if (!closing) continue;
      add_text(text_.substr(at_, end - at_), '%', before);
      advance(end + *closing - at_);
      skip_after(after == '-', after == '+', true);
      return true;
    }
    throw SyntaxError(begin, "the raw block that begins here has no {% endraw %}");
  }

  void lex_tag(std::size_t opening, TokenKind begin, TokenKind end, std::string_view closing) {
    add(begin, "");
    const Position start = position_;
    advance(opening);
    std::string brackets;  // open brackets
    while (true) {
      advance(leading_space(rest()));
      if (at_ == text_.size())
        throw SyntaxError(start, fmt::format("the tag that begins here has no {}", closing));
      const bool has_sign = starts("-") || (starts("+") && end == TokenKind::block_end);
      if (brackets.empty() && rest().substr(has_sign ? 1 : 0).starts_with(closing)) {
        const char sign = has_sign ? rest().front() : ' ';
        add(end, "");
        advance(closing.size() + (has_sign ? 1 : 0));
        skip_after(sign == '-', sign == '+', end == TokenKind::block_end);
        return;
      }
      lex_token(brackets);
    }
  }

  void lex_token(std::string& brackets) {
    const char c = rest().front();
    if (is_name_start(c)) {
      std::size_t length = 1;
      while (length < rest().size() && (is_name_start(rest()[length]) || is_digit(rest()[length]))) ++length;
      add(TokenKind::name, std::string(rest().substr(0, length)));
      advance(length);
    } else if (is_digit(c)) {
      lex_number();
    } else if (c == '"' || c == '\'') {
      lex_string(c);
    } else {
      lex_symbol(brackets);
    }
  }

  // The length of a run of digits, with single underscores between them.
  std::size_t digits(std::size_t from) const {
    std::size_t length = 0;
    const std::string_view text = rest().substr(std::min(from, rest().size()));
    while (length < text.size() &&
           (is_digit(text[length]) ||
            (length > 0 && text[length] == '_' && length + 1 < text.size() && is_digit(text[length + 1]))))
      ++length;
    return length;
  }

  void lex_number() {
    std::size_t length = digits(0);
    TokenKind kind = TokenKind::integer;
    const auto at = [&](std::size_t i) { return i < rest().size() ? rest()[i] : ' '; };
    // After a dot, as in a.1.2, only integers are allowed.
    const bool may_have_point = at_ == 0 || text_[at_ - 1] != '.';
    if (may_have_point && at(length) == '.' && is_digit(at(length + 1))) {
      length += 1 + digits(length + 1);
      kind = TokenKind::number;
    }
    if (may_have_point && (at(length) == 'e' || at(length) == 'E')) {
      const std::size_t sign = at(length + 1) == '+' || at(length + 1) == '-' ? 1 : 0;
      if (const std::size_t exponent = digits(length + 1 + sign); exponent != 0) {
        length += 1 + sign + exponent;
        kind = TokenKind::number;
      }
    }
    if (is_name_start(at(length))) fail("expected a number, found digits that letters follow");
    std::string value(rest().substr(0, length));
    if (kind == TokenKind::integer && value.size() > 1 && value[0] == '0' &&
        value.find_first_not_of("0_") != std::string::npos)
      fail("a whole number must not begin with 0");
    std::erase(value, '_');
    add(kind, std::move(value));
    advance(length);
  }

  void lex_string(char quote) {
    std::size_t end = 1;
    while (end < rest().size() && rest()[end] != quote) end += rest()[end] == '\\' ? 2 : 1;
    if (end >= rest().size()) fail("the string that begins here has no end");
    add(TokenKind::string, unescaped(rest().substr(1, end - 1)));
    advance(end + 1);
  }

  // Replaces Python's escapes. A backslash before any other character is kept.
  std::string unescaped(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
      const std::size_t plain = std::min(text.find('\\'), text.size());
      out += text.substr(0, plain);
      text.remove_prefix(plain);
      if (text.size() < 2) break;
      static constexpr std::string_view kNames = "ntrabfv\\'\"\n";
      static constexpr std::string_view kValues("\n\t\r\a\b\f\v\\'\"", 10);
      const std::size_t known = kNames.find(text[1]);
      if (known < kValues.size()) {
        out += kValues[known];
        text.remove_prefix(2);
      } else if (known != std::string_view::npos) {
        text.remove_prefix(2);  // escaped line end: the string continues
      } else {
        text.remove_prefix(append_numbered(text, out));
      }
    }
    return out;
  }

  // Appends the character of \x41, \u0041, \U00000041 or \101, or else a literal backslash. Returns the
  // length of the escape.
  std::size_t append_numbered(std::string_view text, std::string& out) const {
    const char kind = text[1];
    const bool octal = kind >= '0' && kind <= '7';
    const std::size_t begin = octal ? 1 : 2;
    std::size_t length = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (octal) {
      length = std::min<std::size_t>(
          {3, text.size() - 1, std::min(text.find_first_not_of("01234567", 1), text.size()) - 1});
    }
    if (kind == 'N') fail("characters by name (\\N{...}) are not supported; write \\uXXXX");
    if (length == 0) {
      out += '\\';
      return 1;
    }
    const std::string digits(text.substr(begin, length));
    const bool valid = octal || (digits.size() == length &&
                                 digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos);
    const unsigned long value = valid ? std::stoul(digits, nullptr, octal ? 8 : 16) : 0x110000;
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      fail(fmt::format("the string has an escape \\{}{} that is not a character", kind, digits));
    utf8::append(out, static_cast<char32_t>(value));
    return begin + length;
  }

  void lex_symbol(std::string& brackets) {
    const auto symbol = std::find_if(kSymbols.begin(), kSymbols.end(), [&](auto s) { return starts(s); });
    if (symbol == kSymbols.end())
      fail(fmt::format("unexpected character '{}'", rest().substr(0, utf8::first_character(rest()).length)));
    const char c = symbol->front();
    if (c == '(' || c == '[' || c == '{') {
      brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c) fail(fmt::format("unexpected '{}'", c));
      brackets.pop_back();
    }
    add(TokenKind::symbol, std::string(*symbol));
    advance(symbol->size());
  }

  std::string text_;
  std::size_t at_ = 0;
  Position position_;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex_template(std::string_view source) { return Lexer(source).run(); }

}  // namespace tp::jinja
