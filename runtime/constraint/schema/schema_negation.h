// Schemas for values that another schema does not allow.
#pragma once

#include "runtime/constraint/schema/schema_document.h"

#include <cstddef>
#include <string>

namespace tp::constraint {

struct NegationOptions {
  bool is_open = false;  // objects may have properties that are not listed
  std::size_t depth = 0;
};

// A schema for values that the given schema does not allow. It may not cover all of these values: if a
// keyword has no opposite, only the other keywords are negated. Throws RequestError if no keyword has an
// opposite.
SchemaJson negated(const SchemaJson& schema, const SchemaDocument& document, const SchemaPlace& place,
                   const NegationOptions& options);

// A schema for objects without this property.
SchemaJson without_property(const std::string& name, const NegationOptions& options);

}  // namespace tp::constraint
