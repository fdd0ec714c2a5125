#include "model/tokenizer/oniguruma.h"

#include "model/tokenizer/regex.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::string_view kWordClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kHexClass = "0-9a-fA-F";

bool is_hex_digit(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

// One pass over a pattern; what is not mentioned below is copied.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern), pattern_(pattern) {}

  std::string run() {
    while (!rest_.empty()) {
      if (rest_[0] == '\\')
        escape();
      else if (rest_[0] == '[')
        character_class();
      else if (rest_.starts_with("(?"))
        group_options();
      else if (rest_[0] == '}')
        interval_end();
      else
        copy(1);
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw RegexError(
        fmt::format("the pattern '{}' uses {}, which tp-infer does not support yet", pattern_, what));
  }

  void copy(std::size_t count) {
    count = std::min(count, rest_.size());
    out_.append(rest_.substr(0, count));
    rest_.remove_prefix(count);
  }

  void replace(std::size_t count, std::string_view text) {
    out_.append(text);
    rest_.remove_prefix(count);
  }

  // An escape that reads the same inside and outside of classes. False: it is neither of those.
  bool common_escape() {
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    if (kind == 's') return replace(2, "\\p{White_Space}"), true;
    if (kind == 'S') return replace(2, "\\P{White_Space}"), true;
    if (kind != 'u') return false;
    const std::string_view digits = rest_.substr(2, 4);
    if (digits.size() < 4 || !std::all_of(digits.begin(), digits.end(), is_hex_digit)) return false;
    replace(6, fmt::format("\\x{{{}}}", digits));
    return true;
  }

  void escape() {
    if (common_escape()) return;
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    if (kind == 'w') return replace(2, fmt::format("[{}]", kWordClass));
    if (kind == 'W') return replace(2, fmt::format("[^{}]", kWordClass));
    if (kind == 'h') return replace(2, fmt::format("[{}]", kHexClass));
    if (kind == 'H') return replace(2, fmt::format("[^{}]", kHexClass));
    copy(2);
  }

  void class_escape() {
    if (common_escape()) return;
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    if (kind == 'w') return replace(2, kWordClass);
    if (kind == 'h') return replace(2, kHexClass);
    if (kind == 'W' || kind == 'H') fail(fmt::format("\\{} inside a character class", kind));
    copy(2);
  }

  void character_class() {
    copy(1);
    if (rest_.starts_with('^')) copy(1);
    if (rest_.starts_with(']')) copy(1);  // stands for itself at the beginning
    while (!rest_.empty() && rest_[0] != ']') {
      if (rest_[0] == '\\')
        class_escape();
      else if (rest_.starts_with("[:"))
        copy(rest_.find(":]") == std::string_view::npos ? 2 : rest_.find(":]") + 2);
      else if (rest_[0] == '[')
        fail("a character class inside another");
      else if (rest_.starts_with("&&"))
        fail("an intersection of character classes (&&)");
      else
        copy(1);
    }
    copy(1);
  }

  // (?imx-imx) or (?imx-imx:
  void group_options() {
    std::size_t end = 2;
    while (end < rest_.size() && std::string_view("imx-").find(rest_[end]) != std::string_view::npos) ++end;
    if (end == rest_.size() || (rest_[end] != ':' && rest_[end] != ')')) return copy(2);
    std::string options(rest_.substr(0, end));
    std::replace(options.begin(), options.end(), 'm', 's');
    replace(end, options);
  }

  void interval_end() {
    copy(1);
    if (rest_.starts_with('+') && ends_with_interval()) fail("an interval followed by '+'");
  }

  // Tells {2,3} from the end of \p{L} and the like.
  bool ends_with_interval() const {
    const std::size_t open = out_.rfind('{');
    if (open == std::string::npos || open == 0) return false;
    const std::string_view body = std::string_view(out_).substr(open + 1, out_.size() - open - 2);
    const bool is_numeric = !body.empty() && body.find_first_not_of("0123456789,") == std::string_view::npos;
    return is_numeric && out_[open - 1] != 'x';
  }

  std::string_view rest_;
  std::string_view pattern_;
  std::string out_;
};

}  // namespace

std::string pcre2_pattern_from_oniguruma(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace tp
