#include "runtime/tools/tool_rendering.h"

#include "runtime/tools/tool_conventions.h"
#include "tp/error.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

Json user_says(const std::string& text) { return {{"role", "user"}, {"content", text}}; }

bool has_tool_calls(const Json& message) {
  return message.contains("tool_calls") && message.at("tool_calls").is_array() &&
         !message.at("tool_calls").empty();
}

// The function of a call, whose arguments are an object if they are the text of one.
Json function_of(const Json& call) {
  Json function = call.is_object() ? call.value("function", Json::object()) : Json::object();
  if (!function.is_object()) return Json::object();
  if (function.contains("arguments") && function.at("arguments").is_string()) {
    Json arguments = Json::parse(function.at("arguments").get_ref<const std::string&>(), nullptr, false);
    if (arguments.is_object()) function["arguments"] = std::move(arguments);
  }
  return function;
}

Json with_objects(const Json& calls) {
  Json result = calls;
  for (Json& call : result) {
    if (call.is_object() && call.contains("function")) call["function"] = function_of(call);
  }
  return result;
}

Json with_texts(const Json& calls) {
  Json result = with_objects(calls);
  for (Json& call : result) {
    if (!call.is_object() || !call.contains("function")) continue;
    Json& function = call["function"];
    if (function.contains("arguments") && !function.at("arguments").is_string())
      function["arguments"] = function.at("arguments").dump();
  }
  return result;
}

// As JSON: {"name": ..., "arguments": {...}}.
Json calls_as_json(const Json& calls) {
  Json list = Json::array();
  for (const Json& call : calls) {
    const Json function = function_of(call);
    list.push_back(
        {{"name", function.value("name", Json())}, {"arguments", function.value("arguments", Json())}});
  }
  return list;
}

std::string content_text(const Json& message) {
  const Json content = message.value("content", Json());
  return content.is_string() ? content.get<std::string>() : "";
}

// Adds a text to a message of the user: some templates want users and assistants to take turns.
void add_to_user(const std::string& text, Json& messages) {
  const bool continues = !messages.empty() && messages.back().value("role", "") == "user";
  if (continues)
    messages.back()["content"] = content_text(messages.back()) + "\n" + text;
  else
    messages.push_back(user_says(text));
}

std::string description_of(const Json& tools) {
  std::string text =
      "You may call the following functions. To call one, answer with nothing but a JSON object of this "
      "form:\n"
      "{\"name\": the function's name, \"arguments\": an object with its arguments}\n"
      "To call several, answer with one such object per line. The functions:\n";
  for (const Json& tool : tools)
    text += (tool.is_object() ? tool.value("function", Json()) : Json())
                .dump(-1, ' ', false, Json::error_handler_t::replace) +
            "\n";
  return text;
}

}  // namespace

ToolRendering::ToolRendering(const ChatTemplate& chat)
    : syntax_(syntax_of_template(chat.source())),
      tools_(find_tools(chat)),
      calls_(find_calls(chat, chat.source())) {
  if (tools_ == Tools::described) syntax_.calls = also_as_json(syntax_.calls);
  shape_ = find_call_shape(syntax_, [&](const Json& messages, bool begins_answer) {
    return render(chat, adapted({{"messages", messages},
                                 {"tools", probe_tools()},
                                 {"add_generation_prompt", begins_answer}}));
  });
}

std::optional<std::string> ToolRendering::render(const ChatTemplate& chat, const Json& conversation) const {
  try {
    Json input = {{"bos_token", ""}, {"eos_token", ""}};  // which a template file does not have by itself
    input.update(conversation);
    write_call_ids(ids_in_notation(chat), input["messages"]);
    return chat.render(input).text();
  } catch (const RequestError&) {
    return std::nullopt;
  }
}

ToolRendering::Tools ToolRendering::find_tools(const ChatTemplate& chat) const {
  const auto shows = [&](const Json& conversation) {
    const std::optional<std::string> text = render(chat, conversation);
    return text && text->find(kProbe) != text->npos;
  };
  if (shows({{"messages", Json::array({user_says("?")})},
             {"tools", probe_tools()},
             {"add_generation_prompt", true}}))
    return Tools::variable;
  const Json system = {{"role", "system"}, {"content", ""}, {"tools", probe_tools()}};
  if (shows({{"messages", Json::array({system, user_says("?")})}})) return Tools::system_message;
  return Tools::described;
}

bool ToolRendering::writes_call(const ChatTemplate& chat, const Json& arguments, const Json& content) const {
  const Json call = {
      {"id", kAnyCallId}, {"type", "function"}, {"function", {{"name", kProbe}, {"arguments", arguments}}}};
  const Json assistant = {{"role", "assistant"}, {"content", content}, {"tool_calls", Json::array({call})}};
  const std::optional<std::string> text =
      render(chat, {{"messages", Json::array({user_says("?"), assistant})}});
  return text && text->find(kProbe) != text->npos && text->find(kProbeValue) != text->npos;
}

ToolRendering::Calls ToolRendering::find_calls(const ChatTemplate& chat, const std::string& source) {
  const Json object = {{"x", kProbeValue}};
  for (const Json& content : {Json(), Json("")}) {
    needs_content_ = content.is_string();
    if (writes_call(chat, object, content)) return Calls::objects;
    if (writes_call(chat, object.dump(), content)) return Calls::texts;
  }
  if (source.find("assistant_tool_call") != source.npos) return Calls::granite;
  if (source.find("metadata") != source.npos) return Calls::metadata;
  return Calls::described;
}

Json ToolRendering::adapted(Json conversation) const {
  Json messages = Json::array();
  std::swap(messages, conversation["messages"]);
  for (Json& message : messages) {
    const std::string role = message.value("role", "");
    if (role == "assistant" && has_tool_calls(message))
      write_calls(message, conversation["messages"]);
    else if (role == "tool")
      write_result(message, conversation["messages"]);
    else
      conversation["messages"].push_back(std::move(message));
  }
  give_tools(conversation);
  return conversation;
}

void ToolRendering::write_calls(Json& message, Json& messages) const {
  const Json calls = message.at("tool_calls");
  const std::string text = content_text(message);
  switch (calls_) {
    case Calls::objects:
    case Calls::texts:
      message["tool_calls"] = calls_ == Calls::objects ? with_objects(calls) : with_texts(calls);
      if (text.empty()) message["content"] = needs_content_ ? Json("") : Json();
      messages.push_back(std::move(message));
      break;
    case Calls::granite:
      if (!text.empty()) messages.push_back({{"role", "assistant"}, {"content", text}});
      messages.push_back({{"role", "assistant_tool_call"}, {"content", calls_as_json(calls).dump()}});
      break;
    case Calls::metadata:
      if (!text.empty()) messages.push_back({{"role", "assistant"}, {"content", text}});
      for (const Json& call : calls_as_json(calls)) {
        messages.push_back(
            {{"role", "assistant"}, {"metadata", call.at("name")}, {"content", call.at("arguments").dump()}});
      }
      break;
    case Calls::described:
      std::string lines = text;
      for (const Json& call : calls_as_json(calls)) lines += (lines.empty() ? "" : "\n") + call.dump();
      messages.push_back({{"role", "assistant"}, {"content", lines}});
      break;
  }
}

void ToolRendering::write_result(Json& message, Json& messages) const {
  if (calls_ == Calls::described) {
    const Json name = message.value("name", Json());
    return add_to_user(
        fmt::format("Result of {}: {}", name.is_string() ? name.get<std::string>() : "the function",
                    content_text(message)),
        messages);
  }
  if (calls_ == Calls::granite) message["role"] = "tool_response";
  if (calls_ == Calls::metadata) message["role"] = "observation";
  messages.push_back(std::move(message));
}

void ToolRendering::give_tools(Json& conversation) const {
  const Json tools = conversation.value("tools", Json());
  if (!tools.is_array() || tools_ == Tools::variable) return;
  conversation.erase("tools");
  Json& messages = conversation["messages"];
  if (tools_ == Tools::system_message) {
    const bool has_system = !messages.empty() && messages.front().value("role", "") == "system";
    const Json system = {{"role", "system"},
                         {"content", ""}};  // in braces it would be inserted as two values
    if (!has_system) messages.insert(messages.begin(), system);
    messages.front()["tools"] = tools;
    return;
  }
  for (Json& message : messages) {
    if (message.value("role", "") != "user") continue;
    message["content"] = description_of(tools) + "\n" + content_text(message);
    return;
  }
  messages.push_back(user_says(description_of(tools)));
}

}  // namespace tp
