// Which schemas exclude each other.
#pragma once

#include "runtime/constraint/schema/schema_document.h"

#include <vector>

namespace tp::constraint {

// `oneOf` is `anyOf` where no value is allowed by two of its branches. That is seen by their types, values,
// bounds and required properties; where it is not, throws RequestError.
void require_disjoint(const std::vector<SchemaJson>& branches, const SchemaPlace& place);

}  // namespace tp::constraint
