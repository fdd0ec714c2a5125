#include "runtime/chat/tool_rendering.h"

#include "model/files/json_text.h"
#include "runtime/chat/message_order.h"
#include "runtime/chat/tool_conventions.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

Json user_says(const std::string& text) { return {{"role", "user"}, {"content", text}}; }

bool has_tool_calls(const Json& message) { return message.contains("tool_calls"); }

// Removes null members, which clients may copy from answers, because templates check whether members exist. A
// content is added if it is missing, because templates write None for null.
void tidy(Json& message) {
  for (auto member = message.begin(); member != message.end();) {
    const bool is_empty_list = member.key() == "tool_calls" && member.value().empty();
    member = member.value().is_null() || is_empty_list ? message.erase(member) : std::next(member);
  }
  if (message.value("role", "") == "developer") message["role"] = "system";
  if (!has_tool_calls(message) && !message.contains("content")) message["content"] = "";
}

// The arguments of a call as an object. Broken, empty or too large arguments give an empty object: the model
// wrote them, and the conversation must go on.
Json object_of(const Json& arguments, BoundedJson& texts) {
  Json object = arguments.is_string()
                    ? texts.parse(arguments.get_ref<const std::string&>()).value_or(Json::object())
                    : arguments;
  if (!object.is_object()) object = Json::object();
  return object;
}

// The arguments of a call as a text, exactly as the model wrote it.
std::string written_arguments(const Json& arguments, BoundedJson& texts) {
  const bool is_written = arguments.is_string() && arguments != Json("");
  return is_written ? arguments.get<std::string>() : object_of(arguments, texts).dump();
}

Json function_of(const Json& call) {
  const Json function = call.is_object() ? call.value("function", Json()) : Json();
  return function.is_object() ? function : Json::object();
}

template <class Convert>
Json with_arguments(Json calls, const Convert& convert, BoundedJson& texts) {
  for (Json& call : calls) {
    if (!call.is_object() || !call.contains("function")) continue;
    Json function = function_of(call);
    function["arguments"] = convert(function.value("arguments", Json()), texts);
    call["function"] = std::move(function);
  }
  return calls;
}

// Calls as JSON: {"name": ..., "arguments": {...}}.
Json calls_as_json(const Json& calls, BoundedJson& texts) {
  Json list = Json::array();
  for (const Json& call : calls) {
    const Json function = function_of(call);
    list.push_back({{"name", function.value("name", Json())},
                    {"arguments", object_of(function.value("arguments", Json()), texts)}});
  }
  return list;
}

std::string content_text(const Json& message) {
  const Json content = message.value("content", Json());
  return content.is_string() ? content.get<std::string>() : "";
}

// Appends a text to the last user message, or adds one. Some templates require users and assistants to
// alternate.
void add_to_user(const std::string& text, Json& messages) {
  const bool continues = !messages.empty() && messages.back().value("role", "") == "user";
  if (!continues) return messages.push_back(user_says(text));
  Json& content = messages.back()["content"];
  if (!content.is_string()) content = "";
  content.get_ref<std::string&>() += "\n" + text;
}

bool contains(const std::optional<std::string>& text, std::string_view part) {
  return text && text->find(part) != text->npos;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t number = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++number;
  return number;
}

Json answer_with_call(const Json& arguments, const Json& content) {
  const Json function = {{"name", kProbe}, {"arguments", arguments}};
  const Json call = {{"id", kAnyCallId}, {"type", "function"}, {"function", function}};
  return {{"role", "assistant"}, {"content", content}, {"tool_calls", Json::array({call})}};
}

std::optional<std::string> render_answer(const ChatTemplate& chat, const std::vector<Json>& answer) {
  Json messages = Json::array({user_says("?")});
  for (const Json& message : answer) messages.push_back(message);
  Json conversation = {{"messages", messages}};
  if (chat.has_tool_template()) conversation["tools"] = probe_tools();
  return render_probe(chat, conversation);
}

// The rendered call beside a content. Returns nullopt if the template does not write the call, or writes its
// arguments as a Python object.
std::optional<std::string> written_call(const ChatTemplate& chat, const Json& arguments,
                                        const Json& content) {
  std::optional<std::string> text = render_answer(chat, {answer_with_call(arguments, content)});
  const bool is_written = contains(text, kProbe) && contains(text, kProbeValue) &&
                          !contains(text, fmt::format("{{'x': '{}'}}", kProbeValue));
  return is_written ? text : std::nullopt;
}

bool writes_result(const ChatTemplate& chat, const Json& call) {
  constexpr const char* kOutput = "result_of_probe";
  const Json result = {
      {"role", "tool"}, {"tool_call_id", kAnyCallId}, {"name", kProbe}, {"content", kOutput}};
  return contains(render_answer(chat, {call, result}), kOutput);
}

// The functions of tools, without the object around each function.
Json functions_of(const Json& tools) {
  Json functions = Json::array();
  for (const Json& tool : tools)
    functions.push_back(tool.is_object() ? tool.value("function", Json::object()) : Json::object());
  return functions;
}

std::string description_of(const Json& tools) {
  std::string text =
      "You may call the following functions. To call one, answer with nothing but a JSON object of this "
      "form:\n"
      "{\"name\": the function's name, \"arguments\": an object with its arguments}\n"
      "To call several, answer with one such object per line. The functions:\n";
  for (const Json& tool : tools)
    text += json_text(tool.is_object() ? tool.value("function", Json()) : Json()) + "\n";
  return text;
}

}  // namespace

ToolRendering::ToolRendering(const ChatTemplate& chat)
    : syntax_(syntax_of_template(chat.source())), tools_(find_tools(chat)), calls_(find_calls(chat)) {
  if (tools_ == Tools::described) syntax_.calls = also_as_json(syntax_.calls);
  shape_ = find_call_shape(syntax_, [&](const Json& messages, bool begins_answer) {
    return render_probe(chat, adapted(chat, {{"messages", messages},
                                             {"tools", probe_tools()},
                                             {"add_generation_prompt", begins_answer}}));
  });
}

ToolRendering::Tools ToolRendering::find_tools(const ChatTemplate& chat) {
  if (chat.has_tool_template()) return Tools::variable;
  const auto shows = [&](const Json& conversation) {
    return contains(render_probe(chat, conversation), kProbe);
  };
  const auto shows_tools = [&](const Json& tools) {
    return shows(
        {{"messages", Json::array({user_says("?")})}, {"tools", tools}, {"add_generation_prompt", true}});
  };
  if (shows_tools(probe_tools())) return Tools::variable;
  if (shows_tools(functions_of(probe_tools()))) return Tools::functions;
  const Json system = {{"role", "system"}, {"content", ""}, {"tools", probe_tools()}};
  if (shows({{"messages", Json::array({system, user_says("?")})}})) return Tools::system_message;
  return Tools::described;
}

ToolRendering::CallSupport ToolRendering::find_calls(const ChatTemplate& chat) {
  const Json object = {{"x", kProbeValue}};
  for (const auto& [calls, arguments] : {std::pair(Calls::objects, object), {Calls::texts, object.dump()}}) {
    const auto writes = [&chat, &arguments = arguments](const Json& content) {
      return written_call(chat, arguments, content);
    };
    const auto null = writes(nullptr);
    const auto empty = writes("");
    if (!null && !empty) continue;
    return {.calls = calls,
            .results = writes_result(chat, answer_with_call(arguments, null ? Json() : Json(""))),
            .beside_null = null && !(empty && count(*null, "None") > count(*empty, "None")),
            .beside_empty = empty.has_value(),
            .beside_text = writes("text").has_value()};
  }
  const std::string& source = chat.source();
  if (source.find("assistant_tool_call") != source.npos) return {.calls = Calls::granite, .results = true};
  if (source.find("metadata") != source.npos) return {.calls = Calls::metadata, .results = true};
  return {};
}

Json ToolRendering::adapted(const ChatTemplate& chat, Json conversation) const {
  Json given = Json::array();
  std::swap(given, conversation["messages"]);
  Json messages = Json::array();
  BoundedJson texts;
  for (Json& message : given) {
    tidy(message);
    const std::string role = message.value("role", "");
    if (role == "assistant" && has_tool_calls(message))
      write_calls(message, messages, texts);
    else if (role == "tool")
      write_result(message, messages);
    else
      messages.push_back(std::move(message));
  }
  conversation["messages"] = in_accepted_order(chat, conversation, std::move(messages));
  give_tools(conversation);
  return conversation;
}

Json ToolRendering::in_accepted_order(const ChatTemplate& chat, const Json& conversation,
                                      Json messages) const {
  Json frame = conversation;
  // Uses probe tools, because descriptions of many tools take longer to render than the messages.
  if (conversation.contains("tools") && conversation.at("tools").is_array()) frame["tools"] = probe_tools();
  return tp::in_accepted_order(std::move(messages), [&](Json arranged) {
    Json probe = frame;
    probe["messages"] = std::move(arranged);
    give_tools(probe);
    return render_probe(chat, probe);
  });
}

// The content of a message with calls: the client's if the template then writes the calls, else "" or null.
Json ToolRendering::content_beside_calls(const Json& message) const {
  const Json content = message.value("content", Json());
  const bool is_text = !content_text(message).empty();
  if (is_text && calls_.beside_text) return content;
  const bool wants_null = content.is_null() || !calls_.beside_empty;
  return wants_null && calls_.beside_null ? Json() : Json("");
}

void ToolRendering::write_calls(Json& message, Json& messages, BoundedJson& texts) const {
  const Json calls = message.at("tool_calls");
  const std::string text = content_text(message);
  switch (calls_.calls) {
    case Calls::objects:
    case Calls::texts:
      message["tool_calls"] = calls_.calls == Calls::objects
                                  ? with_arguments(calls, object_of, texts)
                                  : with_arguments(calls, written_arguments, texts);
      if (!text.empty() && !calls_.beside_text)
        messages.push_back({{"role", "assistant"}, {"content", text}});
      message["content"] = content_beside_calls(message);
      messages.push_back(std::move(message));
      break;
    case Calls::granite:
      if (!text.empty()) messages.push_back({{"role", "assistant"}, {"content", text}});
      messages.push_back({{"role", "assistant_tool_call"}, {"content", calls_as_json(calls, texts).dump()}});
      break;
    case Calls::metadata:
      if (!text.empty()) messages.push_back({{"role", "assistant"}, {"content", text}});
      for (const Json& call : calls_as_json(calls, texts)) {
        messages.push_back(
            {{"role", "assistant"}, {"metadata", call.at("name")}, {"content", call.at("arguments").dump()}});
      }
      break;
    case Calls::described:
      std::string lines = text;
      for (const Json& call : calls_as_json(calls, texts)) lines += (lines.empty() ? "" : "\n") + call.dump();
      messages.push_back({{"role", "assistant"}, {"content", lines}});
      break;
  }
}

void ToolRendering::write_result(Json& message, Json& messages) const {
  if (!calls_.results) {
    const Json name = message.value("name", Json());
    return add_to_user(
        fmt::format("Result of {}: {}", name.is_string() ? name.get<std::string>() : "the function",
                    content_text(message)),
        messages);
  }
  if (calls_.calls == Calls::granite) message["role"] = "tool_response";
  if (calls_.calls == Calls::metadata) message["role"] = "observation";
  messages.push_back(std::move(message));
}

void ToolRendering::give_tools(Json& conversation) const {
  const Json tools = conversation.value("tools", Json());
  if (!tools.is_array() || tools_ == Tools::variable) return;
  if (tools_ == Tools::functions) {
    conversation["tools"] = functions_of(tools);
    return;
  }
  conversation.erase("tools");
  Json& messages = conversation["messages"];
  if (tools_ == Tools::system_message) {
    const bool has_system = !messages.empty() && messages.front().value("role", "") == "system";
    const Json system = {{"role", "system"},
                         {"content", ""}};  // insert() would read a braced list as two values
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
