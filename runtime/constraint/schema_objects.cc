#include "runtime/constraint/schema_objects.h"

#include "model/tokenizer/utf8.h"
#include "runtime/constraint/schema_scalars.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

// The names that a key must not have, as a tree of their characters.
struct NameTree {
  std::map<char32_t, NameTree> next;
  bool is_name = false;

  void add(std::string_view name) {
    NameTree* node = this;
    while (!name.empty()) {
      const utf8::Character character = utf8::first_character(name);
      node = &node->next[character.code_point];
      name.remove_prefix(character.length);
    }
    node->is_name = true;
  }
};

class ObjectReader {
 public:
  ObjectReader(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
               const SubschemaExpr& subschema)
      : json_(json), grammar_(json.grammar()), schema_(schema), place_(place), subschema_(subschema) {}

  ExprId read() {
    find_members();
    find_others();
    require_counts();
    if (max_ == 0) return required_ == 0 ? json_.braced('{', grammar_.empty(), '}') : grammar_.never();
    return json_.braced('{', members_.empty() ? only_others() : members(), '}');
  }

 private:
  struct Member {
    ExprId expr;
    bool required;
  };

  void find_members() {
    const SchemaJson properties = schema_.value("properties", SchemaJson::object());
    const SchemaJson required = schema_.value("required", SchemaJson::array());
    if (!properties.is_object())
      place_.at("properties").fail("an object of schemas", SchemaDocument::shown(properties), "correct it");
    const bool are_names = required.is_array() && std::ranges::all_of(required, [](const SchemaJson& name) {
                             return name.is_string();
                           });
    if (!are_names)
      place_.at("required").fail("a list of names", SchemaDocument::shown(required), "correct it");
    const auto required_names = required.get<std::set<std::string>>();
    for (const auto& [name, property] : properties.items())
      add_member(name, property, place_.at("properties").at(name), required_names.contains(name));
    const SchemaJson others = schema_.value("additionalProperties", SchemaJson(true));
    for (const SchemaJson& name : required)  // those that are no properties
      add_member(name.get<std::string>(), others, place_.at("additionalProperties"), true);
  }

  void add_member(const std::string& name, const SchemaJson& property, const SchemaPlace& place,
                  bool required) {
    if (!names_.insert(name).second) return;
    required_ += required ? 1 : 0;
    const ExprId key = grammar_.text(JsonGrammar::text_of(SchemaJson(name)));
    members_.push_back({json_.member(key, subschema_(property, place)), required});
  }

  void find_others() {
    const auto others = schema_.find("additionalProperties");
    const bool has_others = others != schema_.end() ? *others != false : !schema_.contains("properties");
    if (!has_others) return;
    const ExprId value =
        others == schema_.end() ? json_.value() : subschema_(*others, place_.at("additionalProperties"));
    NameTree tree;
    for (const std::string& name : names_) tree.add(name);
    const ExprId key =
        names_.empty() ? json_.string() : grammar_.sequence({grammar_.text("\""), key_other_than(tree)});
    other_ = grammar_.as_rule(json_.member(key, value));
    has_others_ = true;
  }

  // The rest of a key, with its final quote. It is written without escapes that it does not need, so that no
  // name can hide in them.
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

  // Other members could have the same key, so their number says little about how many there are.
  void require_counts() {
    min_ = count_of(schema_, "minProperties", 0, place_);
    max_ = count_of(schema_, "maxProperties", kUnbounded, place_);
    const bool is_map = members_.empty();
    if (min_ > required_ && !(is_map && min_ == 1))
      place_.at("minProperties")
          .fail_unsupported("a number of properties greater than that of the required ones",
                            "list more in `required`");
    if (max_ < members_.size() || (max_ != kUnbounded && has_others_ && !is_map))
      place_.at("maxProperties")
          .fail_unsupported("a limit for listed properties", "use `additionalProperties`, or `anyOf`");
  }

  // No member is listed.
  ExprId only_others() {
    if (!has_others_) return min_ == 0 ? grammar_.empty() : grammar_.never();
    const std::uint32_t more = max_ == kUnbounded ? kUnbounded : max_ - 1;
    const ExprId some = grammar_.sequence({other_, grammar_.repeat(json_.after_comma(other_), 0, more)});
    return min_ == 0 ? grammar_.optional(some) : some;
  }

  // `rest`: what follows when something came before; `first`: when nothing did.
  ExprId members() {
    ExprId rest = has_others_ ? grammar_.repeat(json_.after_comma(other_), 0, kUnbounded) : grammar_.empty();
    ExprId first = has_others_ ? grammar_.optional(grammar_.sequence({other_, rest})) : grammar_.empty();
    for (auto member = members_.rbegin(); member != members_.rend(); ++member) {
      const ExprId expr = grammar_.as_rule(member->expr);
      const ExprId behind = grammar_.as_rule(rest);
      const ExprId begun = grammar_.sequence({expr, behind});
      first = member->required ? begun : grammar_.choice({begun, grammar_.as_rule(first)});
      const ExprId next = json_.after_comma(expr);
      rest = grammar_.sequence({member->required ? next : grammar_.optional(next), behind});
    }
    return first;
  }

  JsonGrammar& json_;
  ByteGrammar& grammar_;
  const SchemaJson& schema_;
  const SchemaPlace& place_;
  const SubschemaExpr& subschema_;
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
                   const SubschemaExpr& subschema) {
  return ObjectReader(json, schema, place, subschema).read();
}

}  // namespace tp::constraint
