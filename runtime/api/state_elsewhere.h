// Members of requests that refer to state outside the request: an earlier answer, a file, another server.
#pragma once

#include "runtime/api/api_error.h"

#include <cstdint>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tp {

// Code of Anthropic's API for a request that the server cannot serve as a thread.
inline constexpr std::string_view kUnsupportedThread = "thread_unsupported_request";

// A member that refers to state elsewhere. Its request without this state would be a different request, so
// every API refuses the member.
struct StateElsewhere {
  // The objects that may have the member: the body, a message or an item of the input, a part of its content,
  // or a tool. Objects inside a part or a tool count, too.
  enum class Place : std::uint8_t { body, item, part, tool };

  Place place = Place::body;
  std::string_view type{};    // only objects of this type have the member; empty: all
  std::string_view member{};  // name in the body
  std::string_view state{};   // the state, for the error
  std::string_view remedy{};
  bool (*refers)(const nlohmann::ordered_json& value) = nullptr;  // null: any value but an empty one
  int status = 400;
  std::string_view code{};

  // The name for errors.
  std::string_view name() const { return type.empty() ? member : type; }
};

std::span<const StateElsewhere> state_elsewhere();

// Throws ApiException if the body of a request has a member of the table. Nested members are found in
// `messages`, `input`, `system` and `tools`.
void refuse_state_elsewhere(const nlohmann::ordered_json& body);

}  // namespace tp
