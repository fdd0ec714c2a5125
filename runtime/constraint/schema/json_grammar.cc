#include "runtime/constraint/schema/json_grammar.h"

#include "model/files/json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::constraint {
namespace {

using Json = nlohmann::ordered_json;

ByteSet any_of(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.set(static_cast<std::uint8_t>(byte));
  return set;
}

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

// Characters that strings contain without an escape.
CodePoints plain_characters() { return CodePoints::all().without({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}); }

std::string escaped(char32_t character) {
  constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (std::size_t i = 0; i < kShort.size(); i += 2) {
    if (static_cast<char32_t>(kShort[i]) == character) return {'\\', kShort[i + 1]};
  }
  return fmt::format("\\u{:04x}", static_cast<std::uint32_t>(character));
}

}  // namespace

JsonGrammar::JsonGrammar(ByteGrammar& grammar, JsonSpace space) : grammar_(grammar), space_(space) {}

// A rule that is made when it is first needed. The rule exists before `make` is called, because `make` may
// refer to it.
template <class Make>
ExprId JsonGrammar::once(std::optional<RuleId>& rule, Make&& make) {
  if (!rule) {
    rule = grammar_.add_rule();
    grammar_.define(*rule, make());
  }
  return grammar_.rule(*rule);
}

ExprId JsonGrammar::space() {
  constexpr std::uint32_t kMaxIndentation = 40;
  if (space_ == JsonSpace::compact) return grammar_.empty();
  return once(space_rule_, [&] {
    const ExprId indentation = grammar_.repeat(grammar_.bytes(any_of(" \t")), 0, kMaxIndentation);
    return grammar_.choice(
        {grammar_.empty(), grammar_.text(" "), grammar_.sequence({grammar_.text("\n"), indentation})});
  });
}

ExprId JsonGrammar::value() {
  return once(value_, [&] {
    return grammar_.choice({object(), array(), string(), number(), boolean(), null()});
  });
}

ExprId JsonGrammar::list_of(ExprId part) {
  const ExprId item = grammar_.as_rule(part);
  return grammar_.optional(grammar_.sequence({item, grammar_.repeat(after_comma(item), 0, kUnbounded)}));
}

ExprId JsonGrammar::object() {
  return once(object_, [&] { return braced('{', list_of(member(string(), value())), '}'); });
}

ExprId JsonGrammar::array() {
  return once(array_, [&] { return braced('[', list_of(value()), ']'); });
}

ExprId JsonGrammar::string() {
  return once(string_, [&] { return quoted(grammar_.repeat(any_character(), 0, kUnbounded)); });
}

ExprId JsonGrammar::integer() {
  return once(integer_, [&] {
    const ExprId digits = grammar_.repeat(grammar_.bytes(any_of(kDigits)), 0, kMaxDigits - 1);
    return grammar_.sequence(
        {grammar_.optional(grammar_.text("-")),
         grammar_.choice(
             {grammar_.text("0"), grammar_.sequence({grammar_.bytes(any_of(kDigits.substr(1))), digits})})});
  });
}

ExprId JsonGrammar::number() {
  return once(number_, [&] {
    const ExprId digit = grammar_.bytes(any_of(kDigits));
    const ExprId fraction = grammar_.sequence({grammar_.text("."), grammar_.repeat(digit, 1, kMaxDigits)});
    const ExprId exponent =
        grammar_.sequence({grammar_.bytes(any_of("eE")), grammar_.optional(grammar_.bytes(any_of("+-"))),
                           grammar_.repeat(digit, 1, 2)});
    return grammar_.sequence({integer(), grammar_.optional(fraction), grammar_.optional(exponent)});
  });
}

// A character or an escape sequence. Two surrogates form one character, and never stand alone.
ExprId JsonGrammar::any_character() {
  return once(any_character_, [&] {
    const ExprId hex = grammar_.bytes(any_of(kHexDigits));
    const ExprId d = grammar_.bytes(any_of("dD"));
    const auto unit = [&](std::vector<ExprId> digits) {
      digits.insert(digits.begin(), grammar_.text("\\u"));
      return grammar_.sequence(std::move(digits));
    };
    const ExprId high = unit({d, grammar_.bytes(any_of("89abAB")), hex, hex});
    const ExprId low = unit({d, grammar_.bytes(any_of("cdefCDEF")), hex, hex});
    return grammar_.choice({plain_characters().expr(grammar_),
                            grammar_.sequence({grammar_.text("\\"), grammar_.bytes(any_of("\"\\/bfnrt"))}),
                            unit({grammar_.bytes(any_of("0123456789abcefABCEF")), hex, hex, hex}),
                            unit({d, grammar_.bytes(any_of("01234567")), hex, hex}),
                            grammar_.sequence({high, low})});
  });
}

ExprId JsonGrammar::string_of_length(std::uint32_t min, std::uint32_t max) {
  if (min == 0 && max == kUnbounded) return string();
  if (max < min) return grammar_.never();
  return quoted(grammar_.repeat(any_character(), min, max));
}

ExprId JsonGrammar::string_of(const std::string& key, const std::function<ExprId()>& make) {
  const auto [found, is_new] = strings_.try_emplace(key, 0);
  if (is_new) found->second = grammar_.as_rule(make());
  return found->second;
}

ExprId JsonGrammar::character(const CodePoints& set) {
  const auto [found, is_new] = characters_.try_emplace(set.ranges(), 0);
  if (!is_new) return found->second;
  const CodePoints plain = plain_characters();
  std::vector<ExprId> choices = {set.without(plain.complement()).expr(grammar_)};
  for (const auto& [first, last] : set.without(plain).ranges()) {
    for (char32_t character = first; character <= last; ++character)
      choices.push_back(grammar_.text(escaped(character)));
  }
  return found->second = grammar_.choice(std::move(choices));
}

ExprId JsonGrammar::literal(const Json& value) {
  if (!value.is_structured()) return grammar_.text(json_text(value));
  std::vector<ExprId> parts;
  for (const auto& [key, element] : value.items()) {
    const ExprId part =
        value.is_array() ? literal(element) : member(grammar_.text(json_text(Json(key))), literal(element));
    parts.push_back(parts.empty() ? part : after_comma(part));
  }
  return braced(value.is_array() ? '[' : '{', grammar_.sequence(std::move(parts)),
                value.is_array() ? ']' : '}');
}

ExprId JsonGrammar::braced(char open, ExprId contents, char close) {
  return grammar_.sequence({grammar_.text(std::string(1, open)), space(), contents, space(),
                            grammar_.text(std::string(1, close))});
}

ExprId JsonGrammar::member(ExprId key, ExprId value) {
  return grammar_.sequence({key, grammar_.text(":"), space(), value});
}

ExprId JsonGrammar::after_comma(ExprId part) {
  return grammar_.sequence({grammar_.text(","), space(), part});
}

}  // namespace tp::constraint
