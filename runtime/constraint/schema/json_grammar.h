// The parts of JSON as a grammar.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"
#include "runtime/constraint/grammar/code_points.h"
#include "tp/constraint.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp::constraint {

// Numbers have at most this many digits before and after the point, and two digits in the exponent, so that
// every reader can represent them.
inline constexpr std::uint32_t kMaxDigits = 40;

class JsonGrammar {
 public:
  // `grammar` must outlive this object.
  JsonGrammar(ByteGrammar& grammar, JsonSpace space);

  ByteGrammar& grammar() { return grammar_; }

  // White space where JSON allows it.
  ExprId space();
  // Any value, or any value of one type.
  ExprId value();
  ExprId object();
  ExprId array();
  ExprId string();
  ExprId number();
  ExprId integer();
  ExprId boolean() { return grammar_.choice({grammar_.text("true"), grammar_.text("false")}); }
  ExprId null() { return grammar_.text("null"); }

  // A string of `min` to `max` characters, in any notation.
  ExprId string_of_length(std::uint32_t min, std::uint32_t max);
  // One character of a set, as a part of a string, in its shortest form.
  ExprId character(const CodePoints& set);
  // Strings that `key` describes completely: `make` is called only once per key.
  ExprId string_of(const std::string& key, const std::function<ExprId()>& make);
  // A string with these contents.
  ExprId quoted(ExprId contents) {
    return grammar_.sequence({grammar_.text("\""), contents, grammar_.text("\"")});
  }
  // A given value.
  ExprId literal(const nlohmann::ordered_json& value);

  // {members} and [elements], with white space; a member; a comma and the part after it.
  ExprId braced(char open, ExprId contents, char close);
  ExprId member(ExprId key, ExprId value);
  ExprId after_comma(ExprId part);

 private:
  template <class Make>
  ExprId once(std::optional<RuleId>& rule, Make&& make);
  ExprId list_of(ExprId part);
  ExprId any_character();

  ByteGrammar& grammar_;
  JsonSpace space_;
  std::map<std::string, ExprId> strings_;
  std::optional<RuleId> space_rule_, value_, object_, array_, string_, number_, integer_, any_character_;
  std::map<std::vector<std::pair<char32_t, char32_t>>, ExprId> characters_;
};

}  // namespace tp::constraint
