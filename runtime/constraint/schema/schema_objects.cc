#include "runtime/constraint/schema/schema_objects.h"

#include "model/files/json_text.h"
#include "model/tokenizer/text/utf8.h"
#include "runtime/constraint/grammar/character_automaton.h"
#include "runtime/constraint/schema/schema_scalars.h"
#include "runtime/constraint/schema/schema_strings.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxTreeDepth = 200;

// The names that a key must not have, as a tree of their characters.
struct NameTree {
  std::map<char32_t, NameTree> next;
  bool is_name = false;

  void add(std::string_view name) {
    NameTree* node = this;
    for (const auto [character, bytes] : utf8::Characters(name)) node = &node->next[character];
    node->is_name = true;
  }
};

class ObjectReader {
 public:
  ObjectReader(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
               const Subschemas& subschemas)
      : json_(json), grammar_(json.grammar()), schema_(schema), place_(place), subschemas_(subschemas) {}

  ExprId read() {
    patterns_ = object_in("patternProperties");
    for (const char* keyword : {"additionalProperties", "unevaluatedProperties"}) {
      if (others_ == nullptr && schema_.contains(keyword)) {
        others_ = &schema_[keyword];
        others_place_ = place_.at(keyword);
      }
    }
    find_members();
    find_others();
    read_counts();
    return json_.braced('{', members(), '}');
  }

 private:
  struct Member {
    ExprId expr;
    bool required;
  };

  SchemaJson object_in(const char* keyword) const {
    const SchemaJson object = schema_.value(keyword, SchemaJson::object());
    if (!object.is_object())
      place_.at(keyword).fail("an object of schemas", SchemaDocument::shown(object), "correct it");
    return object;
  }

  void find_members() {
    const SchemaJson properties = object_in("properties");
    const SchemaJson required = schema_.value("required", SchemaJson::array());
    const bool are_names = required.is_array() && std::ranges::all_of(required, [](const SchemaJson& name) {
                             return name.is_string();
                           });
    if (!are_names)
      place_.at("required").fail("a list of names", SchemaDocument::shown(required), "correct it");
    const auto required_names = required.get<std::set<std::string>>();
    for (const auto& [name, property] : properties.items())
      add_member(name, property, place_.at("properties").at(name), required_names.contains(name));
    const SchemaJson others = others_ == nullptr ? SchemaJson(true) : *others_;
    for (const SchemaJson& name : required) {  // required names that are not listed
      const bool has_pattern = !patterns_of(name.get<std::string>()).empty();
      add_member(name.get<std::string>(), has_pattern ? SchemaJson(true) : others, others_place_, true);
    }
  }

  void add_member(const std::string& name, const SchemaJson& property, const SchemaPlace& place,
                  bool required) {
    if (!names_.insert(name).second) return;
    required_ += required ? 1 : 0;
    SchemaJson all = patterns_of(name);
    all.push_back(property);
    const ExprId value = subschemas_.expr(all.size() == 1 ? property : SchemaJson{{"allOf", all}}, place);
    members_.push_back({json_.member(key_of(name), value), required});
  }

  ExprId key_of(const std::string& name) {
    if (!schema_.contains("propertyNames")) return grammar_.text(json_text(SchemaJson(name)));
    return key_expr({{"const", name}});
  }

  // The schemas of the patterns that match a name.
  SchemaJson patterns_of(const std::string& name) {
    SchemaJson all = SchemaJson::array();
    for (const auto& [pattern, schema] : patterns_.items()) {
      grammar_.budget().charge(1 + name.size());
      if (automaton_of(pattern).matches(name)) all.push_back(schema);
    }
    return all;
  }

  // The automaton of texts that contain a match of the pattern.
  const CharacterAutomaton& automaton_of(const std::string& pattern) {
    const auto found = automata_.find(pattern);
    if (found != automata_.end()) return found->second;
    const TextPattern searched{read_pattern(pattern, pattern_place(pattern)), RegexMatch::search};
    return automata_[pattern] = intersection({searched}, grammar_.budget());
  }

  SchemaPlace pattern_place(const std::string& pattern) const {
    return place_.at("patternProperties").at(pattern);
  }

  // A key that satisfies both a schema and `propertyNames`.
  ExprId key_expr(SchemaJson schema) {
    const SchemaPlace where = place_.at("propertyNames");
    if (schema_.contains("propertyNames"))
      schema = {
          {"allOf", SchemaJson::array({SchemaJson{{"type", "string"}}, schema_["propertyNames"], schema})}};
    return subschemas_.expr(schema, where);
  }

  void find_others() {
    const bool has_others = others_ != nullptr
                                ? *others_ != false
                                : !schema_.contains("properties") && !schema_.contains("patternProperties");
    std::vector<ExprId> choices;
    for (const auto& [pattern, schema] : patterns_.items()) {
      const ExprId value = subschemas_.expr(schema, pattern_place(pattern));
      choices.push_back(json_.member(key_expr(other_names(&pattern)), value));
    }
    if (has_others) {
      const ExprId value = others_ == nullptr ? json_.value() : subschemas_.expr(*others_, others_place_);
      choices.push_back(json_.member(other_key(), value));
    }
    has_others_ = !choices.empty();
    if (has_others_) other_ = grammar_.as_rule(grammar_.choice(std::move(choices)));
  }

  ExprId other_key() {
    const bool has_long_name =
        std::ranges::any_of(names_, [](const std::string& name) { return name.size() > kMaxTreeDepth; });
    if (!patterns_.empty() || schema_.contains("propertyNames") || has_long_name)
      return key_expr(other_names(nullptr));
    if (names_.empty()) return json_.string();
    NameTree tree;
    for (const std::string& name : names_) tree.add(name);
    return grammar_.sequence({grammar_.text("\""), key_other_than(tree)});
  }

  // A schema for names that are not listed, and match only the `wanted` pattern, or no pattern if it is null.
  SchemaJson other_names(const std::string* wanted) const {
    SchemaJson all = SchemaJson::array({SchemaJson{{"type", "string"}}});
    const auto add = [&](const std::string& pattern) { all.push_back({{"pattern", pattern}}); };
    if (!names_.empty()) add(other_than({names_.begin(), names_.end()}));
    for (const auto& [pattern, schema] : patterns_.items()) {
      read_pattern(pattern, pattern_place(pattern));
      add(wanted != nullptr && pattern == *wanted ? pattern : no_pattern(pattern));
    }
    return {{"allOf", all}};
  }

  // The rest of a key, including its closing quote. It is written without unneeded escapes, so that no name
  // can hide in escapes.
  ExprId key_other_than(const NameTree& tree) {
    std::vector<ExprId> choices;
    CodePoints others = CodePoints::all();
    for (const auto& [character, next] : tree.next) {
      const CodePoints only = {{character, character}};
      others = others.without(only);
      choices.push_back(grammar_.sequence({json_.character(only), key_other_than(next)}));
    }
    const ExprId any = grammar_.repeat(json_.character(CodePoints::all()), 0, kUnbounded);
    choices.push_back(grammar_.sequence({json_.character(others), any, grammar_.text("\"")}));
    if (!tree.is_name) choices.push_back(grammar_.text("\""));
    return grammar_.choice(std::move(choices));
  }

  // Unlisted members could have equal keys, so several of them count as one for minProperties.
  void read_counts() {
    min_ = count_of(schema_, "minProperties", 0, place_);
    max_ = count_of(schema_, "maxProperties", kUnbounded, place_);
    if (min_ <= required_) min_ = 0;
    if (!has_others_ && max_ >= members_.size()) max_ = kUnbounded;
    if (has_others_ && min_ > members_.size() + 1)
      place_.at("minProperties")
          .fail_unsupported("a number of properties that are not listed greater than 1",
                            "list some `properties`");
  }

  // The unlisted members after `count` members, which is at most counted().
  ExprId others_after(std::uint32_t count) {
    const std::uint32_t low = min_ > count ? min_ - count : 0;
    const std::uint32_t high = max_ == kUnbounded ? kUnbounded : max_ - count;
    if (!has_others_ || high == 0) return low == 0 ? grammar_.empty() : grammar_.never();
    if (low > 1) return grammar_.never();
    const ExprId next = json_.after_comma(other_);
    const ExprId more = grammar_.repeat(next, 0, high == kUnbounded ? kUnbounded : high - 1);
    const ExprId some = grammar_.sequence({count == 0 ? other_ : next, more});
    return low == 0 ? grammar_.optional(some) : some;
  }

  // Larger numbers of members need not be distinguished.
  std::uint32_t counted() const { return max_ == kUnbounded ? std::max(min_, 1U) : max_; }

  // Builds the members from the last to the first. rest[n]: the text after n members.
  ExprId members() {
    std::vector<ExprId> rest;
    for (std::uint32_t count = 0; count <= std::min<std::size_t>(counted(), members_.size()); ++count)
      rest.push_back(others_after(count));
    for (std::size_t i = members_.size(); i-- > 0;) {
      const ExprId expr = grammar_.as_rule(members_[i].expr);
      std::vector<ExprId> longer;
      for (std::uint32_t count = 0; count <= std::min<std::size_t>(counted(), i); ++count)
        longer.push_back(after_members(count, expr, members_[i].required, rest));
      rest = std::move(longer);
    }
    return rest.front();
  }

  ExprId after_members(std::uint32_t count, ExprId expr, bool required, const std::vector<ExprId>& rest) {
    const bool is_full = count >= max_;
    std::vector<ExprId> choices;
    if (!is_full)
      choices.push_back(grammar_.sequence(
          {count == 0 ? expr : json_.after_comma(expr), rest[std::min<std::size_t>(count + 1, counted())]}));
    if (!required) choices.push_back(rest[std::min<std::size_t>(count, rest.size() - 1)]);
    if (choices.empty()) return grammar_.never();
    return grammar_.as_rule(grammar_.choice(std::move(choices)));
  }

  JsonGrammar& json_;
  ByteGrammar& grammar_;
  const SchemaJson& schema_;
  const SchemaPlace& place_;
  const Subschemas& subschemas_;
  SchemaJson patterns_;  // patternProperties
  std::map<std::string, CharacterAutomaton> automata_;
  const SchemaJson* others_ = nullptr;  // schema of properties that are not listed; null: none
  SchemaPlace others_place_;
  std::set<std::string> names_;
  std::vector<Member> members_;
  std::size_t required_ = 0;
  ExprId other_ = 0;
  bool has_others_ = false;
  std::uint32_t min_ = 0;
  std::uint32_t max_ = kUnbounded;
};

}  // namespace

ExprId object_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
                   const Subschemas& subschemas) {
  return ObjectReader(json, schema, place, subschemas).read();
}

}  // namespace tp::constraint
