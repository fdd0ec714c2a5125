#include "model/tokenizer/text/oniguruma.h"

#include "model/tokenizer/text/regex.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

// Outside classes, Oniguruma looks \w up in a table of Latin-1 that includes these six characters. [\w]
// excludes them.
constexpr std::string_view kLoneWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}²³¹¼½¾";
constexpr int kMaxClassDepth = 64;  // limit of nested classes
constexpr std::string_view kAnyCharacter = "(?s:.)";

bool is_hex_digit(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// PCRE2 matches \p{...} faster outside a class than inside.
std::string expression_of(const CharacterSet& set) {
  const bool is_property = set.members.starts_with("\\p{") && set.members.find('}') == set.members.size() - 1;
  if (is_property) return fmt::format("\\{}{}", set.negated ? 'P' : 'p', set.members.substr(2));
  return fmt::format("[{}{}]", set.negated ? "^" : "", set.members);
}

// The content of [...], as an expression that matches one character.
class CharacterClass {
 public:
  // Adds a character, an escape, or an end of a range.
  void add(std::string_view member) { members_ += member; }

  void add(const CharacterSet& set) {
    if (set.negated)
      others_.push_back(fmt::format("[^{}]", set.members));
    else
      members_ += set.members;
  }

  void add(const CharacterClass& inner) {
    if (inner.is_plain() && !inner.negated_)
      members_ += inner.members_;
    else
      others_.push_back(inner.expression());
  }

  void negate() { negated_ = true; }

  // Starts the operand after "&&".
  void intersect() {
    operands_.push_back(sum());
    members_.clear();
    others_.clear();
  }

  std::string expression() const {
    if (is_plain()) return fmt::format("[{}{}]", negated_ ? "^" : "", members_);
    std::string all;
    for (const std::string& operand : operands_) all += fmt::format("(?={})", operand);
    all += sum();
    return negated_ ? fmt::format("(?:(?!{}){})", all, kAnyCharacter) : fmt::format("(?:{})", all);
  }

 private:
  bool is_plain() const { return operands_.empty() && others_.empty() && !members_.empty(); }

  std::string sum() const {
    std::string all = members_.empty() ? "(?!)" : fmt::format("[{}]", members_);
    for (const std::string& other : others_) all += "|" + other;
    return others_.empty() ? all : fmt::format("(?:{})", all);
  }

  bool negated_ = false;
  std::string members_;                // in PCRE2's class syntax
  std::vector<std::string> others_;    // alternatives that PCRE2 cannot write in a class
  std::vector<std::string> operands_;  // operands of intersections, except the last
};

// Translates a pattern in one pass. Text that no function below handles is copied.
class Translator {
 public:
  Translator(std::string_view pattern, const ScriptTest& is_script) : rest_(pattern), is_script_(is_script) {}

  std::string run() {
    while (!rest_.empty()) {
      if (rest_[0] == '\\')
        escape();
      else if (rest_[0] == '[')
        atom(character_class().expression());
      else if (rest_[0] == '(')
        open_group();
      else if (rest_[0] == ')')
        close_group();
      else if (rest_[0] == '{' && interval_size() > 0)
        interval();
      else if (std::string_view("*+?|").find(rest_[0]) != std::string_view::npos)
        out_ += take(1);
      else
        atom(take(character_size()));
    }
    out_.append(groups_.back().options, ')');
    return std::move(out_);
  }

 private:
  struct Group {
    std::size_t begin;        // place in out_
    std::size_t options = 0;  // number of groups that inline options such as (?i) have opened in this group
  };

  std::string_view take(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  // Appends an atom, which a following quantifier repeats.
  void atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }

  std::size_t character_size() const {
    std::size_t size = 1;
    while (size < rest_.size() && (static_cast<unsigned char>(rest_[size]) & 0xC0) == 0x80) ++size;
    return size;
  }

  // The size of \p{...}, \x{...}, \xHH, or an escape of two characters.
  std::size_t escape_size() const {
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    const bool is_open = rest_.size() > 2 && rest_[2] == '{';
    if ((kind == 'p' || kind == 'P' || kind == 'x') && is_open) {
      const std::size_t close = rest_.find('}');
      return close == std::string_view::npos ? rest_.size() : close + 1;
    }
    std::size_t size = std::min<std::size_t>(2, rest_.size());
    if (kind == 'x')
      while (size < 4 && size < rest_.size() && is_hex_digit(rest_[size])) ++size;
    return size;
  }

  // Reads an escape for a set of characters that PCRE2 defines differently. Otherwise returns nullopt, and
  // reads nothing.
  std::optional<CharacterSet> escaped_set() {
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    std::optional<CharacterSet> set;
    if (kind == 's' || kind == 'S') set = posix_class("space");
    if (kind == 'w' || kind == 'W') set = posix_class("word");
    if (kind == 'h' || kind == 'H') set = posix_class("xdigit");
    if (set) {
      set->negated = std::isupper(static_cast<unsigned char>(kind)) != 0;
      take(2);
      return set;
    }
    if ((kind != 'p' && kind != 'P') || rest_.size() < 3 || rest_[2] != '{') return std::nullopt;
    std::string_view name = rest_.substr(3, escape_size() - 4);
    const bool is_inverted = name.starts_with('^');
    if (is_inverted) name.remove_prefix(1);
    set = character_property(name, is_script_);
    set->negated ^= is_inverted != (kind == 'P');
    take(escape_size());
    return set;
  }

  // Reads an escape for a single character, inside or outside a class.
  std::string escaped_character() {
    const std::string_view digits = rest_.size() > 2 ? rest_.substr(2, 4) : std::string_view();
    if (rest_.starts_with("\\u") && digits.size() == 4 &&
        std::all_of(digits.begin(), digits.end(), is_hex_digit)) {
      take(6);
      return fmt::format("\\x{{{}}}", digits);
    }
    if (rest_.starts_with("\\v")) {
      take(2);
      return "\\x0B";
    }
    return std::string(take(escape_size()));
  }

  void escape() {
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    const auto replace = [&](const std::string& text) {
      take(2);
      atom(text);
    };
    if (kind == 'w') return replace(fmt::format("[{}]", kLoneWord));
    if (kind == 'W') return replace(fmt::format("[^{}]", kLoneWord));
    if (kind == 'b') return replace(fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kLoneWord));
    if (kind == 'B') return replace(fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kLoneWord));
    if (kind == 'O') return replace(std::string(kAnyCharacter));
    if (const auto set = escaped_set())
      atom(expression_of(*set));
    else
      atom(escaped_character());
  }

  CharacterClass character_class(int depth = 0) {
    if (depth == kMaxClassDepth)
      throw RegexError("the pattern has too many character classes inside one another");
    CharacterClass result;
    take(1);
    if (rest_.starts_with('^')) {
      take(1);
      result.negate();
    }
    if (rest_.starts_with(']'))
      result.add(fmt::format("\\{}", take(1)));  // a literal bracket at the beginning of a class
    while (!rest_.empty() && rest_[0] != ']') {
      if (rest_.starts_with("[:") && rest_.find(":]") != std::string_view::npos) {
        result.add(bracketed_posix_class());
      } else if (rest_[0] == '[') {
        result.add(character_class(depth + 1));
      } else if (rest_.starts_with("&&")) {
        take(2);
        result.intersect();
      } else if (rest_[0] != '\\') {
        result.add(take(1));
      } else if (const auto set = escaped_set()) {
        result.add(*set);
      } else {
        result.add(escaped_character());
      }
    }
    if (rest_.empty()) throw RegexError("the pattern has a character class without end");
    take(1);
    return result;
  }

  CharacterSet bracketed_posix_class() {
    const std::size_t end = rest_.find(":]");
    std::string_view name = rest_.substr(2, end - 2);
    const bool is_negated = name.starts_with('^');
    if (is_negated) name.remove_prefix(1);
    std::optional<CharacterSet> set = posix_class(name);
    if (!set) throw RegexError(fmt::format("the pattern has the unknown class [:{}:]", name));
    set->negated ^= is_negated;
    take(end + 2);
    return *set;
  }

  void open_group() {
    if (rest_.starts_with("(?#")) {
      const std::size_t end = rest_.find(')');
      out_ += take(end == std::string_view::npos ? rest_.size() : end + 1);
      return;
    }
    std::size_t end = 2;
    while (end < rest_.size() && std::string_view("imx-").find(rest_[end]) != std::string_view::npos) ++end;
    const bool has_options = rest_.starts_with("(?") && end > 2 && end < rest_.size();
    if (has_options && rest_[end] == ')') {
      // The options apply up to the end of the group, including its other alternatives.
      out_ += options(take(end)) + ":";
      take(1);
      ++groups_.back().options;
      return;
    }
    groups_.push_back({out_.size()});
    if (has_options && rest_[end] == ':')
      out_ += options(take(end));
    else
      out_ += take(rest_.starts_with("(?<") ? 3 : rest_.starts_with("(?") ? 2 : 1);
  }

  // Oniguruma's option m is PCRE2's s.
  static std::string options(std::string_view text) {
    std::string result(text);
    std::replace(result.begin(), result.end(), 'm', 's');
    return result;
  }

  void close_group() {
    out_.append(groups_.back().options, ')');
    atom_ = groups_.back().begin;
    if (groups_.size() > 1) groups_.pop_back();
    out_ += take(1);
  }

  // The size in bytes of {n}, {n,}, {,m} or {n,m}; 0 for literal text.
  std::size_t interval_size() const {
    const std::size_t close = rest_.find('}');
    if (close == std::string_view::npos) return 0;
    const std::string_view body = rest_.substr(1, close - 1);
    const auto commas = std::count(body.begin(), body.end(), ',');
    const auto digits = std::count_if(body.begin(), body.end(), is_digit);
    const bool is_interval =
        commas <= 1 && digits > 0 && static_cast<std::size_t>(commas + digits) == body.size();
    return is_interval ? close + 1 : 0;
  }

  void interval() {
    const std::string_view text = take(interval_size());
    const bool is_exact = text.find(',') == std::string_view::npos;
    out_ += text.starts_with("{,") ? fmt::format("{{0{}", text.substr(1)) : std::string(text);
    // Oniguruma reads the sign as a second quantifier, PCRE2 as a part of the interval.
    if (rest_.starts_with('+') || (is_exact && rest_.starts_with('?'))) {
      out_.insert(atom_, "(?:");
      out_ += ")";
    }
  }

  std::string_view rest_;
  const ScriptTest& is_script_;
  std::string out_;
  std::size_t atom_ = 0;  // place of the last atom in out_
  std::vector<Group> groups_ = {{0}};
};

}  // namespace

std::string pcre2_pattern_from_oniguruma(std::string_view pattern, const ScriptTest& is_script) {
  return Translator(pattern, is_script).run();
}

}  // namespace tp
