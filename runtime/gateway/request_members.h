// The members of a request's body that the gateway needs.
#pragma once

#include <string>
#include <string_view>

namespace tp {

struct RequestMembers {
  std::string model{};  // empty: the request names none
  bool stream = false;
};

// Whether the first character of a body is that of a JSON object. A byte order mark may precede it, as for
// servers.
bool begins_object(std::string_view body);

// Reads the members `model` and `stream` of a JSON object, the last ones if there are several, without
// parsing the rest: a body may have megabytes, and the gateway's thread must not block. If the text is not
// JSON, the result is empty or what a prefix says, and the server refuses the request.
RequestMembers members_of(std::string_view body);

// The value of a parameter in a target's query: "coder" in "/metrics?model=coder"; empty without it.
std::string query_value(std::string_view target, std::string_view name);

}  // namespace tp
