#include "runtime/constraint/schema/schema_arrays.h"

#include "runtime/constraint/schema/schema_scalars.h"
#include "runtime/constraint/schema/schema_values.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxUnique = 5;  // most values for which all orders are written out

class ArrayReader {
 public:
  ArrayReader(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
              const Subschemas& subschemas)
      : json_(json), grammar_(json.grammar()), schema_(schema), place_(place), subschemas_(subschemas) {}

  ExprId read() {
    min_ = count_of(schema_, "minItems", 0, place_);
    max_ = count_of(schema_, "maxItems", kUnbounded, place_);
    if (max_ < min_) return grammar_.never();
    const SchemaJson unique = schema_.value("uniqueItems", SchemaJson(false));
    if (!unique.is_boolean())
      place_.at("uniqueItems").fail("true or false", SchemaDocument::shown(unique), "correct it");
    for (const char* keyword : {"items", "unevaluatedItems"}) {
      if (items_ == nullptr && schema_.contains(keyword)) items_ = &schema_[keyword];
    }
    if (schema_.contains("contains")) return json_.braced('[', containing(), ']');
    if (unique == true && max_ > 1) return json_.braced('[', unique_items(), ']');
    return json_.braced('[', items(), ']');
  }

 private:
  // prefixItems, then items. A prefix item may be missing only if all later items are missing, too.
  ExprId items() {
    const SchemaJson prefix = schema_.value("prefixItems", SchemaJson::array());
    if (!prefix.is_array())
      place_.at("prefixItems").fail("a list of schemas", SchemaDocument::shown(prefix), "correct it");
    const std::size_t length = std::min<std::size_t>(prefix.size(), max_);
    ExprId rest = further_items(length);
    for (std::size_t i = length; i-- > 0;) {
      const ExprId item = subschemas_.expr(prefix[i], place_.at("prefixItems").at(i));
      rest = grammar_.sequence({i == 0 ? item : json_.after_comma(item), rest});
      if (i >= min_) rest = grammar_.optional(rest);
    }
    return rest;
  }

  // The items after the first `before` items.
  ExprId further_items(std::size_t before) {
    const std::uint32_t min = min_ > before ? min_ - static_cast<std::uint32_t>(before) : 0;
    const std::uint32_t max = max_ == kUnbounded ? kUnbounded : max_ - static_cast<std::uint32_t>(before);
    const bool closed = before > 0 && items_ == nullptr && min == 0;
    if (max == 0 || closed) return grammar_.empty();
    const SchemaJson& of_items = items_ != nullptr ? *items_ : kAnything;
    if (of_items == false) return min == 0 ? grammar_.empty() : grammar_.never();
    const ExprId item = grammar_.as_rule(subschemas_.expr(of_items, place_.at("items")));
    return repeated(item, before > 0, min, max);
  }

  ExprId repeated(ExprId item, bool is_after_others, std::uint32_t min, std::uint32_t max) {
    if (max == 0) return min == 0 ? grammar_.empty() : grammar_.never();
    const ExprId next = json_.after_comma(item);
    if (is_after_others) return grammar_.repeat(next, min, max);
    const ExprId some = grammar_.sequence(
        {item, grammar_.repeat(next, min == 0 ? 0 : min - 1, max == kUnbounded ? kUnbounded : max - 1)});
    return min == 0 ? grammar_.optional(some) : some;
  }

  // At least minContains items that `contains` allows, then other items. If maxContains is given, `contains`
  // must not allow the other items.
  ExprId containing() {
    const SchemaPlace where = place_.at("contains");
    const std::uint32_t least = count_of(schema_, "minContains", 1, place_);
    const std::uint32_t most = count_of(schema_, "maxContains", kUnbounded, place_);
    if (schema_.contains("prefixItems") || schema_.value("uniqueItems", SchemaJson()) == true)
      where.fail_unsupported("`contains` beside `prefixItems` or `uniqueItems`",
                             "use `items` or `prefixItems`");
    if (least > most || least > max_) return grammar_.never();
    const SchemaJson& of_items = items_ != nullptr ? *items_ : kAnything;
    const auto with = [&](const SchemaJson& schema) {
      const SchemaJson both =
          of_items == true ? schema : SchemaJson{{"allOf", SchemaJson::array({of_items, schema})}};
      return grammar_.as_rule(subschemas_.expr(both, where));
    };
    const ExprId contained = with(schema_["contains"]);
    const ExprId other =
        most == kUnbounded ? with(true) : with(subschemas_.negated(schema_["contains"], where));
    const std::uint32_t rest_min = min_ > least ? min_ - least : 0;
    const std::uint32_t rest_max = max_ == kUnbounded ? kUnbounded : max_ - least;
    if (least == 0) return repeated(other, false, rest_min, rest_max);
    return grammar_.sequence(
        {repeated(contained, false, least, least), repeated(other, true, rest_min, rest_max)});
  }

  // Requires listed values, so that the remaining values are known at every place.
  ExprId unique_items() {
    const SchemaPlace where = place_.at("uniqueItems");
    const SchemaJson of_items = items_ != nullptr ? subschemas_.flat(*items_, place_.at("items")) : kAnything;
    const std::optional<SchemaJson> listed = listed_values(of_items);
    if (schema_.contains("prefixItems") || !listed)
      where.fail_unsupported(
          "`uniqueItems` of items that are not an `enum`, which would take a memory of all items before,",
          "leave it out, and remove duplicates from the answer");
    std::vector<SchemaJson> values;
    ValueSet known(grammar_.budget());
    for (const SchemaJson& value : *listed) {
      if (known.insert(value)) values.push_back(value);
    }
    if (values.size() <= kMaxUnique) return orders_of(values, 0);
    return in_order(values);
  }

  ExprId item_of(const SchemaJson& value) {
    const SchemaJson only = {{"const", value}};
    return subschemas_.expr({{"allOf", SchemaJson::array({*items_, only})}}, place_.at("items"));
  }

  // Some of the values, in the order of the list. rest[n]: the text after n items, from the remaining values.
  ExprId in_order(const std::vector<SchemaJson>& values) {
    const std::uint32_t most = std::min<std::uint32_t>(max_, static_cast<std::uint32_t>(values.size()));
    const std::uint32_t counted = most < values.size() ? most : std::min(std::max(min_, 1U), most);
    std::vector<ExprId> rest;
    for (std::uint32_t before = 0; before <= counted; ++before)
      rest.push_back(before >= min_ ? grammar_.empty() : grammar_.never());
    for (auto value = values.rbegin(); value != values.rend(); ++value) {
      const ExprId item = grammar_.as_rule(item_of(*value));
      std::vector<ExprId> longer = rest;
      for (std::uint32_t before = 0; before <= counted; ++before) {
        const bool is_full = before == counted && most < values.size();
        if (is_full) continue;
        const ExprId with = grammar_.sequence(
            {before == 0 ? item : json_.after_comma(item), rest[std::min(before + 1, counted)]});
        longer[before] = grammar_.as_rule(grammar_.choice({with, rest[before]}));
      }
      rest = std::move(longer);
    }
    return rest.front();
  }

  ExprId orders_of(const std::vector<SchemaJson>& values, std::size_t before) {
    std::vector<ExprId> choices;
    if (before >= min_) choices.push_back(grammar_.empty());
    for (std::size_t i = 0; i < values.size() && before < max_; ++i) {
      std::vector<SchemaJson> others = values;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const ExprId item = item_of(values[i]);
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
  const Subschemas& subschemas_;
  const SchemaJson* items_ = nullptr;  // schema of items after prefixItems; null: none
  std::uint32_t min_ = 0;
  std::uint32_t max_ = kUnbounded;
};

}  // namespace

ExprId array_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
                  const Subschemas& subschemas) {
  return ArrayReader(json, schema, place, subschemas).read();
}

}  // namespace tp::constraint
