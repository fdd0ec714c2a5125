#include "runtime/api/state_elsewhere.h"

#include "runtime/chat/json_members.h"

#include <string>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Place = StateElsewhere::Place;

constexpr std::string_view kSendAll = "leave it out, and send the whole conversation";
constexpr std::string_view kSendText = "leave it out, and send the text";
constexpr std::string_view kRunYourself = "leave it out, and offer functions that the client runs";
constexpr std::string_view kLeaveOut = "leave it out";

bool is_object(const Json& value) { return value.is_object(); }
bool is_id(const Json& value) { return value.is_string(); }
bool continues_thread(const Json& thread) { return type_of(thread) == "continue"; }

constexpr StateElsewhere kTable[] = {
    {.place = Place::body,
     .member = "thread",
     .state = "a stored conversation",
     .remedy = kSendAll,
     .refers = continues_thread,
     .status = 404,
     .code = "thread_not_found"},
    {.place = Place::body,
     .member = "thread",
     .state = "a conversation to store",
     .remedy = kSendAll,
     .code = kUnsupportedThread},
    {.place = Place::body,
     .member = "previous_response_id",
     .state = "an earlier response",
     .remedy = kSendAll},
    {.place = Place::body, .member = "conversation", .state = "a stored conversation", .remedy = kSendAll},
    {.place = Place::body,
     .member = "prompt",
     .state = "a stored template",
     .remedy = kSendText,
     .refers = is_object},
    {.place = Place::body, .member = "cached_content", .state = "stored content", .remedy = kSendText},
    {.place = Place::body, .member = "data_sources", .state = "stored documents", .remedy = kSendText},
    {.place = Place::body, .member = "file_ids", .state = "uploaded files", .remedy = kSendText},
    {.place = Place::body, .member = "vector_store_ids", .state = "stored documents", .remedy = kSendText},
    {.place = Place::body,
     .member = "tool_resources",
     .state = "files and documents of tools",
     .remedy = kSendText},
    {.place = Place::body, .member = "container", .state = "a container", .remedy = kLeaveOut},
    {.place = Place::body,
     .member = "mcp_servers",
     .state = "other servers, whose tools it would call",
     .remedy = kRunYourself},
    {.place = Place::body,
     .member = "background",
     .state = "an answer to fetch later",
     .remedy = "leave it out, or use `stream`"},
    {.place = Place::body,
     .member = "deferred",
     .state = "an answer to fetch later",
     .remedy = "leave it out, or use `stream`"},
    {.place = Place::item,
     .type = "item_reference",
     .member = "id",
     .state = "a stored item",
     .remedy = "set `store: false` in the client, and send the items"},
    {.place = Place::item,
     .type = "compaction",
     .member = "encrypted_content",
     .state = "a summary that only another server can read",
     .remedy = "send the messages that it stands for"},
    {.place = Place::item,
     .type = "compaction_summary",
     .member = "encrypted_content",
     .state = "a summary that only another server can read",
     .remedy = "send the messages that it stands for"},
    {.place = Place::item, .member = "audio", .state = "a stored answer", .remedy = kSendText},
    {.place = Place::item, .member = "file_ids", .state = "uploaded files", .remedy = kSendText},
    {.place = Place::part, .member = "file_id", .state = "an uploaded file", .remedy = kSendText},
    {.place = Place::tool, .member = "vector_store_ids", .state = "stored documents", .remedy = kSendText},
    {.place = Place::tool, .member = "file_ids", .state = "uploaded files", .remedy = kSendText},
    {.place = Place::tool, .member = "skills", .state = "stored skills", .remedy = kLeaveOut},
    {.place = Place::tool,
     .member = "container",
     .state = "a container",
     .remedy = kLeaveOut,
     .refers = is_id},
    {.place = Place::tool, .member = "container_id", .state = "a container", .remedy = kLeaveOut},
    {.place = Place::tool,
     .member = "server_url",
     .state = "another server, whose tools it would call",
     .remedy = kRunYourself},
    {.place = Place::tool,
     .member = "connector_id",
     .state = "another server, whose tools it would call",
     .remedy = kRunYourself},
    {.place = Place::tool,
     .member = "mcp_server_name",
     .state = "another server, whose tools it would call",
     .remedy = kRunYourself},
};

// Clients send empty values for absent members.
bool is_given(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  return value.is_string() ? value != Json("") : !value.empty();
}

// `list`: the body's member that contains the object; empty for the body itself.
[[noreturn]] void refuse(const StateElsewhere& row, std::string_view list) {
  const std::string where = list.empty() ? "" : fmt::format("`{}`: ", list);
  throw ApiException(
      {.status = row.status,
       .message = fmt::format("{}expected a request that contains everything, found `{}`, which refers to "
                              "{}; {}",
                              where, row.name(), row.state, row.remedy),
       .param = std::string(list.empty() ? row.name() : list),
       .code = std::string(row.code)});
}

// A pointer, because copies of a conversation cost time; null if there is no such member.
const Json* find_member(const Json& object, std::string_view name) {
  const auto member = object.find(std::string(name));
  return member == object.end() || member->is_null() ? nullptr : &*member;
}

void check(Place place, const Json& object, std::string_view list) {
  if (!object.is_object()) return;
  for (const StateElsewhere& row : kTable) {
    if (row.place != place || (!row.type.empty() && type_of(object) != row.type)) continue;
    const Json* const value = find_member(object, row.member);
    if (value == nullptr) continue;
    if (row.refers == nullptr ? is_given(*value) : row.refers(*value)) refuse(row, list);
  }
}

// Results of another server's tools contain ids of its files. They are history, and are left out.
bool is_history(const Json& part) {
  const std::string type = type_of(part);
  return type.ends_with("_tool_result") && type != "tool_result";
}

template <class Check>
void for_each_in(const Json& object, std::string_view name, const Check& check) {
  const Json* const list = find_member(object, name);
  if (list == nullptr || !list->is_array()) return;
  for (const Json& each : *list) check(each);
}

void check_inside(Place place, const Json& object, std::string_view name, std::string_view list) {
  if (const Json* const inner = find_member(object, name)) check(place, *inner, list);
}

void check_part(const Json& part, std::string_view list) {
  if (!part.is_object() || is_history(part)) return;
  check(Place::part, part, list);
  for (const char* name : {"source", "file", "image_url", "input_audio"})
    check_inside(Place::part, part, name, list);
  for (const char* name : {"content", "output"})
    for_each_in(part, name, [&](const Json& each) { check_part(each, list); });
}

void check_tool_state(const Json& tool) {
  check(Place::tool, tool, "tools");
  for (const char* name : {"container", "environment"}) check_inside(Place::tool, tool, name, "tools");
  if (type_of(tool) == "namespace") for_each_in(tool, "tools", check_tool_state);
}

}  // namespace

std::span<const StateElsewhere> state_elsewhere() { return kTable; }

void refuse_state_elsewhere(const Json& body) {
  check(Place::body, body, "");
  for (const char* list : {"messages", "input", "system"}) {
    for_each_in(body, list, [&](const Json& item) {
      check(Place::item, item, list);
      check_part(item, list);
    });
  }
  for_each_in(body, "tools", check_tool_state);
}

}  // namespace tp
