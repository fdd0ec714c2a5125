#pragma once

#include "model/files/json_node.h"

#include <functional>
#include <string_view>

namespace tp {

// Calls visit(part) for each part of `json`: for `json` itself or, if its type is "Sequence", recursively for
// the elements of its member `member`.
void for_each_in_sequence(const JsonNode& json, std::string_view member,
                          const std::function<void(const JsonNode&)>& visit);

}  // namespace tp
