#include "runtime/constraint/schema/json_schema.h"

#include "model/files/json_text.h"
#include "runtime/constraint/grammar/state_machine.h"
#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/schema_arrays.h"
#include "runtime/constraint/schema/schema_dialect.h"
#include "runtime/constraint/schema/schema_disjoint.h"
#include "runtime/constraint/schema/schema_document.h"
#include "runtime/constraint/schema/schema_merge.h"
#include "runtime/constraint/schema/schema_negation.h"
#include "runtime/constraint/schema/schema_objects.h"
#include "runtime/constraint/schema/schema_scalars.h"
#include "runtime/constraint/schema/schema_strings.h"
#include "runtime/constraint/schema/schema_values.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxSchemaDepth = 150;
constexpr std::size_t kMaxReferences = 32;  // consecutive references without a value in between

bool derives(StateMachine& machine, const std::string& text) {
  StateId state = machine.start();
  for (std::size_t i = 0; i < text.size() && state != kDead; ++i)
    state = machine.next(state, static_cast<std::uint8_t>(text[i]));
  return state != kDead && machine.ends(state);
}

class SchemaReader {
 public:
  SchemaReader(ByteGrammar& grammar, const SchemaDocument& document, JsonSpace space)
      : document_(document), json_(grammar, space), grammar_(grammar), space_(space) {}

  ExprId read(const SchemaJson& given, const SchemaPlace& place, std::size_t depth = 0) {
    if (depth > kMaxSchemaDepth)
      place.fail(fmt::format("at most {} levels", kMaxSchemaDepth), "more",
                 "use fewer, or repeat them by one $ref");
    const SchemaJson schema = normalized(given, document_, place);
    if (schema == true) return json_.value();
    if (schema == false) return grammar_.never();
    if (!schema.contains("$ref") && !schema.contains("allOf")) return read_flat(schema, place, depth);
    // Equal schemas become the same rule, which may contain itself.
    const auto [found, is_new] = rules_.try_emplace(json_text(schema), 0);
    if (!is_new) return grammar_.rule(found->second);
    const RuleId rule = found->second = grammar_.add_rule();
    grammar_.define(rule, read_flat(flattened(schema, place, 0), place, depth));
    return grammar_.rule(rule);
  }

 private:
  // Size in parts. A long text counts as several parts.
  static std::size_t size_of(const SchemaJson& json) {
    constexpr std::size_t kBytesPerPart = 32;
    if (json.is_string()) return 1 + json.get_ref<const std::string&>().size() / kBytesPerPart;
    std::size_t size = 1;
    if (json.is_structured()) {
      for (const auto& [name, part] : json.items()) size += name.size() / kBytesPerPart + size_of(part);
    }
    return size;
  }

  SchemaJson joined(const SchemaJson& a, const SchemaJson& b, const SchemaPlace& place) const {
    document_.charge(size_of(a) + size_of(b), place);
    return merged(a, b, place, grammar_.budget());
  }

  // Returns the schema without $ref and allOf at its top level.
  SchemaJson flattened(const SchemaJson& given, const SchemaPlace& place, std::size_t depth,
                       Conditions conditions = Conditions::written_out) const {
    SchemaJson schema = normalized(given, document_, place, conditions);
    if (conditions == Conditions::left_out) schema = closed_if_plain(std::move(schema), given);
    if (schema.is_boolean()) return schema;
    if (depth > kMaxReferences)
      place.fail("references that end at a schema", "one that leads back to itself", "remove it");
    const auto part = [&](const SchemaJson& one, const SchemaPlace& where) {
      return closed_alone(flattened(one, where, depth + 1, conditions));
    };
    SchemaJson rest = SchemaJson::object();
    for (const auto& [keyword, value] : schema.items()) {
      if (keyword != "$ref" && keyword != "allOf") rest[keyword] = value;
    }
    if (const auto reference = schema.find("$ref"); reference != schema.end()) {
      if (!reference->is_string())
        place.at("$ref").fail("a text", SchemaDocument::shown(*reference), "correct it");
      const auto name = reference->get<std::string>();
      const SchemaJson& target = document_.resolve(name, place);
      rest = joined(rest, part(target, {name.substr(name.find('#') + 1)}), place);
    }
    if (const auto all = schema.find("allOf"); all != schema.end()) {
      const SchemaPlace inside = place.at("allOf");
      if (!all->is_array()) inside.fail("a list of schemas", SchemaDocument::shown(*all), "correct it");
      for (std::size_t i = 0; i < all->size(); ++i)
        rest = joined(rest, part((*all)[i], inside.at(i)), inside.at(i));
    }
    return rest;
  }

  ExprId read_flat(const SchemaJson& schema, const SchemaPlace& place, std::size_t depth) {
    if (schema.is_boolean()) return read(schema, place, depth);
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (schema.contains(keyword)) return read_branches(schema, keyword, place, depth);
    }
    if (schema.contains("enum") || schema.contains("const")) return read_enum(schema, place, depth);
    std::vector<ExprId> choices;
    for (const std::string& type : types_of(schema, place))
      choices.push_back(read_type(type, schema, place, depth));
    return choices.empty() ? grammar_.never() : grammar_.choice(std::move(choices));
  }

  ExprId read_branches(const SchemaJson& schema, const std::string& keyword, const SchemaPlace& place,
                       std::size_t depth) {
    const SchemaJson& branches = schema.at(keyword);
    const SchemaPlace inside = place.at(keyword);
    if (!branches.is_array() || branches.empty())
      inside.fail("a list of schemas", SchemaDocument::shown(branches), "correct it");
    const auto all_flattened = [&](Conditions conditions) {
      std::vector<SchemaJson> flat;
      for (std::size_t i = 0; i < branches.size(); ++i)
        flat.push_back(flattened(branches[i], inside.at(i), 0, conditions));
      return flat;
    };
    if (keyword == "oneOf") require_disjoint(all_flattened(Conditions::left_out), inside, grammar_.budget());
    const std::vector<SchemaJson> flat = all_flattened(Conditions::written_out);
    SchemaJson base = SchemaJson::object();
    for (const auto& [other, value] : schema.items()) {
      if (other != keyword) base[other] = value;
    }
    std::vector<ExprId> choices;
    for (std::size_t i = 0; i < branches.size(); ++i) {
      const SchemaJson branch =
          base.empty() ? branches[i] : joined(base, closed_alone(flat[i]), inside.at(i));
      choices.push_back(read(branch, inside.at(i), depth + 1));
    }
    return grammar_.choice(std::move(choices));
  }

  // The listed values for which the other keywords hold, too.
  ExprId read_enum(const SchemaJson& schema, const SchemaPlace& place, std::size_t depth) {
    SchemaJson values = SchemaJson::array();
    if (schema.contains("enum")) {
      values = schema["enum"];
      if (!values.is_array())
        place.at("enum").fail("a list of values", SchemaDocument::shown(values), "correct it");
    }
    if (const auto value = schema.find("const"); value != schema.end()) {
      const bool listed = !schema.contains("enum") || ValueSet(values, grammar_.budget()).contains(*value);
      values = listed ? SchemaJson::array({*value}) : SchemaJson::array();
    }
    SchemaJson others = SchemaJson::object();
    for (const auto& [keyword, value] : schema.items()) {
      if (keyword != "enum" && keyword != "const") others[keyword] = value;
    }
    std::vector<ExprId> choices;
    for (const SchemaJson& value : those_that_hold(others, values, place, depth))
      choices.push_back(json_.literal(value));
    return choices.empty() ? grammar_.never() : grammar_.choice(std::move(choices));
  }

  SchemaJson those_that_hold(const SchemaJson& schema, const SchemaJson& values, const SchemaPlace& place,
                             std::size_t depth) {
    if (schema.empty()) return values;
    SchemaJson candidates = SchemaJson::array();
    const std::vector<std::string> types = types_of(schema, place);
    for (const SchemaJson& value : values) {
      if (std::ranges::any_of(types, [&](const std::string& type) { return has_type(value, type); }))
        candidates.push_back(value);
    }
    if (candidates.empty() || (schema.size() == 1 && schema.contains("type"))) return candidates;
    ByteGrammar grammar = grammar_.scratch();
    grammar.root = grammar.add_rule();
    SchemaReader reader(grammar, document_, space_);
    const ExprId expr = reader.read(schema, place, depth + 1);
    grammar.define(grammar.root, grammar.choice({expr, grammar.text("")}));  // derives at least one text
    grammar_.budget().charge(grammar.exprs());
    const Automaton automaton = build_automaton(std::move(grammar));
    return derived(automaton, candidates);
  }

  SchemaJson derived(const Automaton& automaton, const SchemaJson& values) const {
    constexpr std::uint64_t kWorkPerUnit = 16;
    StateMachine machine(automaton);
    const std::uint64_t limit = grammar_.budget().left * kWorkPerUnit;
    machine.limit_work(limit);
    SchemaJson found = SchemaJson::array();
    for (const SchemaJson& value : values) {
      if (derives(machine, json_text(value))) found.push_back(value);
    }
    grammar_.budget().charge((limit - machine.work_left()) / kWorkPerUnit);
    return found;
  }

  ExprId read_type(const std::string& type, const SchemaJson& schema, const SchemaPlace& place,
                   std::size_t depth) {
    const Subschemas subschema{
        [&](const SchemaJson& part, const SchemaPlace& where) { return read(part, where, depth + 1); },
        [&](const SchemaJson& part, const SchemaPlace& where) { return flattened(part, where, 0); },
        [&](const SchemaJson& part, const SchemaPlace& where) {
          return negated(part, document_, where, {.is_open = true});
        }};
    if (type == "null") return json_.null();
    if (type == "boolean") return json_.boolean();
    if (type == "string") return string_expr(json_, schema, place);
    if (type == "array") return array_expr(json_, schema, place, subschema);
    if (type == "object") return object_expr(json_, schema, place, subschema);
    return number_expr(json_, schema, place, type == "integer");
  }

  const SchemaDocument& document_;
  JsonGrammar json_;
  ByteGrammar& grammar_;
  JsonSpace space_;
  std::map<std::string, RuleId> rules_;
};

}  // namespace

ExprId json_schema_expr(ByteGrammar& grammar, std::string_view schema, JsonSpace space) {
  const SchemaDocument document(schema, grammar.budget());
  return SchemaReader(grammar, document, space).read(document.root(), {});
}

}  // namespace tp::constraint
