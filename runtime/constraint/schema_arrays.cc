#include "runtime/constraint/schema_arrays.h"

#include "runtime/constraint/schema_scalars.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxUnique = 5;  // different items: all orders of them are written out

class ArrayReader {
 public:
  ArrayReader(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
              const SubschemaExpr& subschema)
      : json_(json), grammar_(json.grammar()), schema_(schema), place_(place), subschema_(subschema) {}

  ExprId read() {
    min_ = count_of(schema_, "minItems", 0, place_);
    max_ = count_of(schema_, "maxItems", kUnbounded, place_);
    if (max_ < min_) return grammar_.never();
    const SchemaJson unique = schema_.value("uniqueItems", SchemaJson(false));
    if (!unique.is_boolean())
      place_.at("uniqueItems").fail("true or false", SchemaDocument::shown(unique), "correct it");
    if (unique == true && max_ > 1) return json_.braced('[', unique_items(), ']');
    return json_.braced('[', items(), ']');
  }

 private:
  // prefixItems, each of which may be left out if those behind it are; then items.
  ExprId items() {
    const SchemaJson prefix = schema_.value("prefixItems", SchemaJson::array());
    if (!prefix.is_array())
      place_.at("prefixItems").fail("a list of schemas", SchemaDocument::shown(prefix), "correct it");
    const std::size_t length = std::min<std::size_t>(prefix.size(), max_);
    ExprId rest = further_items(length);
    for (std::size_t i = length; i-- > 0;) {
      const ExprId item = subschema_(prefix[i], place_.at("prefixItems").at(i));
      rest = grammar_.sequence({i == 0 ? item : json_.after_comma(item), rest});
      if (i >= min_) rest = grammar_.optional(rest);
    }
    return rest;
  }

  // Behind so many others.
  ExprId further_items(std::size_t before) {
    const std::uint32_t min = min_ > before ? min_ - static_cast<std::uint32_t>(before) : 0;
    const std::uint32_t max = max_ == kUnbounded ? kUnbounded : max_ - static_cast<std::uint32_t>(before);
    const bool closed = before > 0 && !schema_.contains("items") && min == 0;
    if (max == 0 || closed) return grammar_.empty();
    const SchemaJson& of_items = schema_.contains("items") ? schema_["items"] : kAnything;
    if (of_items == false) return min == 0 ? grammar_.empty() : grammar_.never();
    const ExprId item = grammar_.as_rule(subschema_(of_items, place_.at("items")));
    const ExprId next = json_.after_comma(item);
    if (before > 0) return grammar_.repeat(next, min, max);
    const ExprId some = grammar_.sequence(
        {item, grammar_.repeat(next, min == 0 ? 0 : min - 1, max == kUnbounded ? kUnbounded : max - 1)});
    return min == 0 ? grammar_.optional(some) : some;
  }

  // Only of few values, so that what is left can be told at every place.
  ExprId unique_items() {
    const SchemaPlace where = place_.at("uniqueItems");
    const SchemaJson of_items = schema_.value("items", kAnything);
    const bool is_enum = of_items.is_object() && of_items.contains("enum") && of_items["enum"].is_array();
    if (!is_enum || schema_.contains("prefixItems") ||
        of_items.size() > (of_items.contains("type") ? 2U : 1U) || of_items["enum"].size() > kMaxUnique)
      where.fail_unsupported(
          fmt::format("`uniqueItems` of items that are not an `enum` of at most {} values", kMaxUnique),
          "leave it out");
    std::vector<SchemaJson> values;
    for (const SchemaJson& value : of_items["enum"]) {
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
    return orders_of(values, 0);
  }

  ExprId orders_of(const std::vector<SchemaJson>& values, std::size_t before) {
    std::vector<ExprId> choices;
    if (before >= min_) choices.push_back(grammar_.empty());
    for (std::size_t i = 0; i < values.size() && before < max_; ++i) {
      std::vector<SchemaJson> others = values;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const ExprId item = subschema_({{"const", values[i]}}, place_.at("items"));
      choices.push_back(
          grammar_.sequence({before == 0 ? item : json_.after_comma(item), orders_of(others, before + 1)}));
    }
    return choices.empty() ? grammar_.never() : grammar_.choice(std::move(choices));
  }

  inline static const SchemaJson kAnything = true;

  JsonGrammar& json_;
  ByteGrammar& grammar_;
  const SchemaJson& schema_;
  const SchemaPlace& place_;
  const SubschemaExpr& subschema_;
  std::uint32_t min_ = 0;
  std::uint32_t max_ = kUnbounded;
};

}  // namespace

ExprId array_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
                  const SubschemaExpr& subschema) {
  return ArrayReader(json, schema, place, subschema).read();
}

}  // namespace tp::constraint
