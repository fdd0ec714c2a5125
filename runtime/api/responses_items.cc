#include "runtime/api/responses_items.h"

#include "model/files/json_text.h"
#include "model/tokenizer/text/base64.h"
#include "model/tokenizer/text/utf8.h"
#include "runtime/chat/json_members.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// Calls of OpenAI's own tools that clients execute: the tool's name, and the member that contains the action.
struct ClientCall {
  const char* type;
  const char* name;
  const char* action;
};
constexpr ClientCall kClientCalls[] = {{"local_shell_call", "local_shell", "action"},
                                       {"shell_call", "shell", "action"},
                                       {"apply_patch_call", "apply_patch", "operation"}};

const ClientCall* client_call(const std::string& type) {
  const auto* const found = std::ranges::find(kClientCalls, type, &ClientCall::type);
  return found == std::end(kClientCalls) ? nullptr : found;
}

Json id_of(const Json& item) {
  const Json id = member_of(item, "call_id");
  return id.is_null() ? member_of(item, "id") : id;
}

// A result may be any value: a text, parts, or the output of an OpenAI tool.
Json result_content(const Json& output) {
  const bool has_parts = output.is_array() &&
                         std::ranges::all_of(output, [](const Json& part) { return !type_of(part).empty(); });
  if (output.is_string() || has_parts) return output;
  return output.is_null() ? "" : json_text(output);
}

// The texts of a list of parts.
std::string texts_of(const Json& parts) {
  std::string texts;
  if (!parts.is_array()) return texts;
  for (const Json& part : parts) {
    if (const Json text = member_of(part, "text"); text.is_string())
      texts += (texts.empty() ? "" : "\n") + text.get<std::string>();
  }
  return texts;
}

constexpr std::string_view kSeal = "tp1:";  // marks our own `encrypted_content`

// The thinking in `encrypted_content`; empty if another server wrote it.
std::string opened_thoughts(const Json& sealed) {
  if (!sealed.is_string()) return "";
  const std::string_view text = sealed.get_ref<const std::string&>();
  if (!text.starts_with(kSeal)) return "";
  const std::string thoughts = decoded_base64(text.substr(kSeal.size())).value_or("");
  return utf8::is_valid(thoughts) ? thoughts : "";
}

bool is_answer(const Json& message) { return message.at("role") == Json("assistant"); }

// Whether the last message is an answer that contains only thinking so far.
bool ends_with_thoughts(const Json& messages) {
  return !messages.empty() && is_answer(messages.back()) && messages.back().at("content").is_null() &&
         !messages.back().contains("tool_calls");
}

}  // namespace

std::string sealed_thoughts(std::string_view text) { return std::string(kSeal) + base64(text); }

void ItemReader::add(const Json& item) {
  const std::string type = type_of(item);
  require<RequestError>(item.is_object(), "`input`: expected a text or a list of objects, found {}",
                        item.type_name());
  const bool is_message = type == "message" || (type.empty() && item.contains("role"));
  require<RequestError>(is_message || !type.empty(),
                        "`input`: expected items with a `type`, found {}; set `store: false` in the client "
                        "if it is a reference to an item, because this server stores none",
                        shown_part(item));
  if (is_message) return add_message(item);
  // A part outside a message, such as an image.
  if (type.starts_with("input_")) return add_message({{"role", "user"}, {"content", Json::array({item})}});
  if (type == "reasoning") return add_reasoning(item);
  if (type == "function_call") return add_call(item, member_of(item, "name"), member_of(item, "arguments"));
  if (type == "custom_tool_call")
    return add_call(item, member_of(item, "name"), {{kTextParameter, member_of(item, "input")}});
  if (const ClientCall* const call = client_call(type))
    return add_call(item, call->name, member_of(item, call->action));
  if (type.ends_with("_call_output") && item.contains("output") && type != "computer_call_output")
    return add_result(id_of(item), item.at("output"));
  if (type == "mcp_call") {
    add_call(item, member_of(item, "name"), member_of(item, "arguments"));
    const Json error = member_of(item, "error");
    return add_result(id_of(item), error.is_null() ? member_of(item, "output") : error);
  }
  warn_of("`input`: items", type, warnings_);
}

void ItemReader::add_message(const Json& item) {
  const Json content = member_of(item, "content");
  if (item.value("role", Json()) == Json("assistant") && ends_with_thoughts(messages_))
    messages_.back()["content"] = content;
  else
    messages_.push_back({{"role", item.value("role", Json())}, {"content", content}});
}

// The template gets the model's thinking, as in chats. Thinking that another server encrypted is left out.
void ItemReader::add_reasoning(const Json& item) {
  std::string text = texts_of(member_of(item, "content"));
  if (text.empty()) text = opened_thoughts(member_of(item, "encrypted_content"));
  if (text.empty()) text = texts_of(member_of(item, "summary"));
  if (text.empty()) return;
  if (!ends_with_thoughts(messages_)) messages_.push_back({{"role", "assistant"}, {"content", nullptr}});
  Json& thoughts = messages_.back()["reasoning_content"];
  if (thoughts.is_null())
    thoughts = std::move(text);
  else
    thoughts.get_ref<std::string&>() += "\n" + text;
}

void ItemReader::add_call(const Json& item, const Json& name, const Json& arguments) {
  const Json space = member_of(item, "namespace");
  const bool is_spaced = space.is_string() && name.is_string();
  const Json known =
      is_spaced ? Json(tools_->name_of(space.get<std::string>(), name.get<std::string>())) : name;
  const Json function = {{"name", known}, {"arguments", arguments}};
  open_answer()["tool_calls"].push_back({{"id", id_of(item)}, {"type", "function"}, {"function", function}});
}

void ItemReader::add_result(const Json& id, const Json& output) {
  messages_.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", result_content(output)}});
}

// The answer to which calls are added.
Json& ItemReader::open_answer() {
  if (messages_.empty() || !is_answer(messages_.back()))
    messages_.push_back({{"role", "assistant"}, {"content", nullptr}});
  Json& answer = messages_.back();
  if (!answer.contains("tool_calls")) answer["tool_calls"] = Json::array();
  return answer;
}

Json ItemReader::take_messages() { return std::exchange(messages_, Json::array()); }

}  // namespace tp
