#include "runtime/constraint/schema/schema_strings.h"

#include "runtime/constraint/grammar/matching_texts.h"
#include "runtime/constraint/schema/json_formats.h"
#include "runtime/constraint/schema/schema_scalars.h"

#include <optional>

namespace tp::constraint {
namespace {

class StringReader {
 public:
  StringReader(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place)
      : json_(json), schema_(schema), place_(place) {}

  ExprId read() {
    const std::uint32_t min = count_of(schema_, "minLength", 0, place_);
    const std::uint32_t max = count_of(schema_, "maxLength", kUnbounded, place_);
    if (max < min) return json_.grammar().never();
    length_ = {min, max};
    const SchemaJson pattern = schema_.value("pattern", SchemaJson());
    const SchemaJson format = schema_.value("format", SchemaJson());
    if (!schema_.contains("pattern") && !format_pattern(format)) return json_.string_of_length(min, max);
    const std::string key = fmt::format("{} {} {} {}", min, max, pattern.dump(), format.dump());
    return json_.string_of(key, [&] { return json_.quoted(matching(patterns_of())); });
  }

 private:
  std::vector<TextPattern> patterns_of() const {
    std::vector<TextPattern> patterns;
    if (schema_.contains("pattern"))
      patterns.push_back({read_pattern(schema_["pattern"], place_), RegexMatch::search});
    if (const auto format = format_pattern(schema_.value("format", SchemaJson())))
      patterns.push_back({read_regex("the format", *format), RegexMatch::whole});
    return patterns;
  }

  ExprId matching(const std::vector<TextPattern>& patterns) {
    if (patterns.size() == 1) {
      if (const std::optional<ExprId> plain = plain_expr(patterns.front())) return *plain;
    }
    const ExprId all = counted(patterns);
    if (!is_never(all) || !format_pattern(schema_.value("format", SchemaJson()))) return all;
    return patterns.size() == 1 ? anything() : counted({patterns.front()});
  }

  // Needs no automaton, so the result is smaller if repetitions have large bounds.
  std::optional<ExprId> plain_expr(const TextPattern& pattern) {
    if (!is_plain(pattern.node)) return std::nullopt;
    const std::optional<RegexNode> fitted = with_length(pattern.node, pattern.match, length_);
    if (!fitted || fitted->parts.empty()) return std::nullopt;
    return regex_expr(json_.grammar(), *fitted, pattern.match, character());
  }

  ExprId counted(const std::vector<TextPattern>& patterns) {
    return language_expr(json_.grammar(), intersection(patterns, json_.grammar().budget()), length_,
                         character());
  }

  ExprId anything() {
    return json_.grammar().repeat(character()(CodePoints::all()), static_cast<std::uint32_t>(length_.min),
                                  static_cast<std::uint32_t>(length_.max));
  }

  CharacterExpr character() {
    return [&](const CodePoints& set) { return json_.character(set); };
  }

  bool is_never(ExprId expr) const { return json_.grammar().expr(expr).kind == Expr::Kind::never; }

  JsonGrammar& json_;
  const SchemaJson& schema_;
  const SchemaPlace& place_;
  MatchLength length_;
};

// A regular expression that matches only this text.
std::string escaped(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-/").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace

ExprId string_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place) {
  return StringReader(json, schema, place).read();
}

RegexNode read_pattern(const SchemaJson& pattern, const SchemaPlace& place) {
  const SchemaPlace where = place.at("pattern");
  if (!pattern.is_string()) where.fail("a text", SchemaDocument::shown(pattern), "correct it");
  return read_regex(fmt::format("the JSON Schema at `{}`", where.pointer),
                    pattern.get_ref<const std::string&>());
}

std::string both_patterns(const std::string& a, const std::string& b) {
  return fmt::format("^(?=(?s:.)*(?:{}))(?=(?s:.)*(?:{}))", a, b);
}

std::string no_pattern(const std::string& pattern) { return fmt::format("^(?!(?s:.)*(?:{}))", pattern); }

std::string other_than(const std::vector<std::string>& texts) {
  std::string listed;
  for (const std::string& text : texts) listed += (&text == &texts.front() ? "" : "|") + escaped(text);
  return fmt::format("^(?!(?:{})$)", listed);
}

}  // namespace tp::constraint
