#pragma once

#include "model/files/json_node.h"

#include <functional>
#include <string_view>

namespace tp {

// Calls visit(part) for the parts that `json` consists of: itself or, when its type is "Sequence", the
// elements of its member `member` and theirs.
void for_each_in_sequence(const JsonNode& json, std::string_view member,
                          const std::function<void(const JsonNode&)>& visit);

}  // namespace tp
