// What a model's family writes around the names and arguments of calls.
#pragma once

#include "runtime/chat/message_syntax.h"

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Stands for any id of a call, of nine letters and digits.
inline constexpr const char* kAnyCallId = "abcdefghi";

// begin, and then, with `separator` in between, once or several times: name, middle, arguments as JSON; end.
struct CallShape {
  std::string marker{};  // with which `begin` begins, and no text does; empty: calls are a whole answer
  std::string begin{};
  std::string middle{};
  std::string separator{};  // empty: an answer has only one call
  std::string end{};
};

// A template's text for messages, with tools, up to where an answer begins or to its end; nothing if it
// refuses them.
using MessagesRendering =
    std::function<std::optional<std::string>(const nlohmann::ordered_json& messages, bool begins_answer)>;

// The tools that a rendering has to be given: one with a parameter `x`.
nlohmann::ordered_json probe_tools();
// A message that calls it, with the arguments {"x": value} for each of the values.
nlohmann::ordered_json probe_call(const std::vector<std::string>& values);
inline constexpr const char* kProbe = "probe_of_tools";
inline constexpr const char* kProbeValue = "value_of_probe";

// As the template writes calls. Where their arguments are no JSON there, or cannot be read back: a call as a
// JSON object with `name` and `arguments`, which readers take in all notations.
CallShape find_call_shape(const MessageSyntax& syntax, const MessagesRendering& render);

// The notation without what other shapes need, which is text then.
CallNotation only_of_shape(CallNotation notation, const CallShape& shape);

}  // namespace tp
