// Schemas for what another schema does not allow.
#pragma once

#include "runtime/constraint/schema/schema_document.h"

#include <cstddef>
#include <string>

namespace tp::constraint {

struct NegationOptions {
  bool is_open = false;  // objects may have properties that are not listed
  std::size_t depth = 0;
};

// A schema whose values the given one does not allow. It may not list all of these values: if a keyword has
// no opposite, only the other keywords are negated. Throws RequestError if no keyword has an opposite.
SchemaJson negated(const SchemaJson& schema, const SchemaDocument& document, const SchemaPlace& place,
                   const NegationOptions& options);

// For objects without a property.
SchemaJson without_property(const std::string& name, const NegationOptions& options);

}  // namespace tp::constraint
