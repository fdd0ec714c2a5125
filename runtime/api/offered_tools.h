// The tools of a request that the model is offered.
#pragma once

#include "tp/message.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// A function of a `namespace` tool of /v1/responses.
struct NamespacedName {
  std::string space{};
  std::string name{};
};

// The tools that the model can call: functions, and `custom` tools as functions of one text. Tools of other
// types run on the API's own servers, or need a model that was trained for them. They are left out, with a
// warning.
struct OfferedTools {
  // In the format of chat completions; unchanged if the client did not send a list.
  nlohmann::ordered_json functions{};
  std::vector<std::string> warnings{};
  std::map<std::string, TextFormat> texts{};           // formats of `custom` tools, by name
  std::map<std::string, NamespacedName> namespaces{};  // keys: names that the model sees
  std::map<std::pair<std::string, std::string>, std::string> known_names{};  // keys: namespace and name

  // The model's name of a function.
  std::string name_of(const std::string& space, const std::string& name) const;
};

// Reads the tools of /v1/chat/completions: {"type": "function", "function": {...}} and {"type": "custom",
// "custom": {...}}.
OfferedTools offered_chat_tools(const nlohmann::ordered_json& tools);
// Converts the tools of /v1/responses to tools of chat completions, `functions`. A tool's fields are in the
// tool itself, and a namespace may hold several tools. A namespace's tool keeps its name unless another tool
// has the name.
OfferedTools offered_responses_tools(const nlohmann::ordered_json& tools);
// Reads the tools of Anthropic's /v1/messages. A tool without a type is a function.
OfferedTools offered_messages_tools(const nlohmann::ordered_json& tools);

// Adds a warning that `what` of this type was left out, once per type. Shortens the type to a length that a
// log may contain. After 16 types, a single warning stands for all further types.
void warn_of(std::string_view what, std::string_view type, std::vector<std::string>& warnings);

}  // namespace tp
