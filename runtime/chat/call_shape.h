// The text that a model's family writes around the names and arguments of calls.
#pragma once

#include "runtime/chat/message_syntax.h"

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Stands for any call id of nine letters and digits.
inline constexpr const char* kAnyCallId = "abcdefghi";

// The text of calls: begin; one or more calls (name, middle, arguments as JSON) with `separator` in between;
// end.
struct CallShape {
  std::string marker{};  // first part of `begin`, which does not occur in text; empty: an answer is either
                         // text or calls
  std::string begin{};
  std::string middle{};
  std::string separator{};  // empty: an answer has at most one call
  std::string end{};
};

// Renders messages with tools, either up to the beginning of an answer or completely. Returns nullopt if the
// template refuses the messages.
using MessagesRendering =
    std::function<std::optional<std::string>(const nlohmann::ordered_json& messages, bool begins_answer)>;

// The tools that the rendering must use: one tool with a parameter `x`.
nlohmann::ordered_json probe_tools();
// A message that calls this tool, once for each value, with the arguments {"x": value}.
nlohmann::ordered_json probe_call(const std::vector<std::string>& values);
inline constexpr const char* kProbe = "probe_of_tools";
inline constexpr const char* kProbeValue = "value_of_probe";

// The shape in which the template writes calls. If its arguments are not JSON, or cannot be read back: a JSON
// object with `name` and `arguments`, which the readers of all notations accept.
CallShape find_call_shape(const MessageSyntax& syntax, const MessagesRendering& render);

// Reduces a notation to a shape. Markers of other shapes become text.
CallNotation only_of_shape(CallNotation notation, const CallShape& shape);

}  // namespace tp
