// Sets of JSON values.
#pragma once

#include "runtime/constraint/grammar/language_budget.h"
#include "runtime/constraint/schema/schema_document.h"

#include <string>
#include <unordered_set>

namespace tp::constraint {

// A set that finds a value without comparing it with all others: lists of requests can be long. Values are
// equal as in JSON Schema: 1 equals 1.0, and the order of an object's members makes no difference. The set's
// work is charged to the budget, so its members throw RequestError.
class ValueSet {
 public:
  // `budget` must outlive this object.
  explicit ValueSet(LanguageBudget& budget) : budget_(&budget) {}
  // The elements of a list.
  ValueSet(const SchemaJson& list, LanguageBudget& budget);

  // Returns whether the value is new.
  bool insert(const SchemaJson& value) { return insert(key_of(value)); }
  bool contains(const SchemaJson& value) const { return keys_.contains(key_of(value)); }
  // Whether the sets have a value in common.
  bool meets(const ValueSet& other) const;

 private:
  bool insert(std::string key) { return keys_.insert(std::move(key)).second; }
  std::string key_of(const SchemaJson& value) const;

  LanguageBudget* budget_;
  std::unordered_set<std::string> keys_;
};

}  // namespace tp::constraint
