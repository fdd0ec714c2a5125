// A JSON Schema document and its parts.
#pragma once

#include "runtime/constraint/grammar/language_budget.h"
#include "tp/internal/require.h"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::constraint {

using SchemaJson = nlohmann::ordered_json;

// The place of a schema in a document, for errors. A schema from several places has the pointer of the first.
struct SchemaPlace {
  std::string pointer;  // JSON pointer; "" for the whole document

  SchemaPlace at(std::string_view key) const;
  SchemaPlace at(std::size_t index) const { return {pointer + "/" + std::to_string(index)}; }

  [[noreturn]] void fail(std::string_view expected, std::string_view found, std::string_view advice) const;
  [[noreturn]] void fail_unsupported(std::string_view what, std::string_view advice) const;
};

class SchemaDocument {
 public:
  // Throws RequestError if the text is not JSON, or is nested too deeply. `budget` must outlive this object.
  SchemaDocument(std::string_view text, LanguageBudget& budget);

  const SchemaJson& root() const { return root_; }
  // The target of a $ref, which must be in this document: "#", "#/$defs/name", "#name", "URI#/$defs/name".
  const SchemaJson& resolve(const std::string& reference, const SchemaPlace& place) const;

  // Counts parts of schemas that are read or joined, because they can multiply. Throws RequestError if there
  // are too many in this document, or in all documents that share the budget.
  void charge(std::size_t parts, const SchemaPlace& place) const;

  // A short excerpt of JSON for an error.
  static std::string shown(const SchemaJson& json);

 private:
  SchemaJson root_;
  const SchemaJson* find(const std::string& reference, const SchemaPlace& place) const;

  LanguageBudget& budget_;
  mutable std::size_t work_ = 0;
  mutable std::map<std::string, const SchemaJson*> targets_;  // targets of resolved references
};

// Whether a keyword of a normalized() schema does not restrict values. JSON Schema demands that unknown
// keywords are ignored.
bool is_annotation(std::string_view keyword);

}  // namespace tp::constraint
