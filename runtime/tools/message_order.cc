#include "runtime/tools/message_order.h"

#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

struct Arrangement {
  enum class Systems : std::uint8_t { stay, in_front, to_user };

  Systems systems = Systems::stay;
  bool joins_equal_roles = false;
  bool fills_gaps = false;
};

using Systems = Arrangement::Systems;

// The least change first.
constexpr Arrangement kArrangements[] = {
    {Systems::stay, false, false}, {Systems::in_front, false, false}, {Systems::to_user, false, false},
    {Systems::stay, true, false},  {Systems::in_front, true, false},  {Systems::to_user, true, false},
    {Systems::stay, false, true},  {Systems::in_front, false, true},  {Systems::to_user, false, true},
    {Systems::stay, true, true},   {Systems::in_front, true, true},   {Systems::to_user, true, true}};

std::string role_of(const Json& message) { return message.value("role", ""); }
bool is_system(const Json& message) { return role_of(message) == "system"; }
bool is_user(const Json& message) { return role_of(message) == "user"; }
bool has_calls(const Json& message) { return message.contains("tool_calls"); }

bool has_text(const Json& message) {
  const Json content = message.value("content", Json());
  return content.is_string() && content != Json("");
}

bool is_joinable(const Json& content) { return content.is_string() || content.is_null(); }

// A message with calls shows its text before them.
bool can_continue(const Json& last, const Json& message) {
  const bool is_same = role_of(last) == role_of(message) &&
                       (is_system(message) || is_user(message) || role_of(message) == "assistant");
  return is_same && is_joinable(last.value("content", Json())) &&
         is_joinable(message.value("content", Json())) && !(has_calls(last) && has_text(message));
}

void join_texts(const char* name, const Json& message, Json& last) {
  const Json text = message.value(name, Json());
  if (!text.is_string() || text == Json("")) return;
  const Json before = last.value(name, Json());
  const bool continues = before.is_string() && before != Json("");
  last[name] = continues ? Json(before.get<std::string>() + "\n\n" + text.get<std::string>()) : text;
}

void join(const Json& message, Json& last) {
  join_texts("content", message, last);
  join_texts("reasoning_content", message, last);
  if (!has_calls(message)) return;
  for (const Json& call : message.at("tool_calls")) last["tool_calls"].push_back(call);
}

Json with_systems_in_front(Json messages) {
  Json system;
  Json others = Json::array();
  for (Json& message : messages) {
    if (!is_system(message))
      others.push_back(std::move(message));
    else if (system.is_null())
      system = std::move(message);
    else
      join(message, system);
  }
  if (!system.is_null()) others.insert(others.begin(), system);
  return others;
}

Json with_systems_of_user(Json messages) {
  for (Json& message : messages) {
    if (is_system(message)) message["role"] = "user";
  }
  return messages;
}

Json with_joined_roles(Json messages) {
  Json joined = Json::array();
  for (Json& message : messages) {
    if (!joined.empty() && can_continue(joined.back(), message))
      join(message, joined.back());
    else
      joined.push_back(std::move(message));
  }
  return joined;
}

Json empty_message(const char* role) { return {{"role", role}, {"content", ""}}; }

// Users and answers alternate, and the user begins. Calls are no answers.
Json with_filled_gaps(Json messages) {
  Json filled = Json::array();
  bool has_user = false;
  bool waits_for_answer = false;
  for (Json& message : messages) {
    const bool is_assistant = role_of(message) == "assistant";
    if (is_user(message) && waits_for_answer) filled.push_back(empty_message("assistant"));
    if (is_assistant && !has_user) filled.push_back(empty_message("user"));
    has_user = has_user || is_user(message) || is_assistant;
    if (is_user(message) || is_assistant)
      waits_for_answer = is_user(message) || (has_calls(message) && waits_for_answer);
    filled.push_back(std::move(message));
  }
  if (!has_user) filled.push_back(empty_message("user"));
  return filled;
}

Json arranged(Json messages, const Arrangement& arrangement) {
  if (arrangement.systems == Systems::in_front) messages = with_systems_in_front(std::move(messages));
  if (arrangement.systems == Systems::to_user) messages = with_systems_of_user(std::move(messages));
  if (arrangement.joins_equal_roles) messages = with_joined_roles(std::move(messages));
  return arrangement.fills_gaps ? with_filled_gaps(std::move(messages)) : messages;
}

std::string probe_text(std::size_t message) { return fmt::format("text_{}_of_probe", message); }

// Replaces the texts of messages by probe texts, which no template changes.
Json with_probe_texts(Json messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (has_text(messages[i])) messages[i]["content"] = probe_text(i);
  }
  return messages;
}

// One more than the number of texts of the system and the user that are in a text; 0 if there is no text.
std::size_t count_shown(const Json& messages, const std::optional<std::string>& text) {
  if (!text) return 0;
  std::size_t count = 1;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool counts = (is_system(messages[i]) || is_user(messages[i])) && has_text(messages[i]);
    if (counts && text->find(probe_text(i)) != text->npos) ++count;
  }
  return count;
}

std::size_t count_all(const Json& messages) {
  std::size_t count = 1;
  for (const Json& message : messages) count += (is_system(message) || is_user(message)) && has_text(message);
  return count;
}

}  // namespace

Json in_accepted_order(Json messages, const OrderRendering& render) {
  const Json probe = with_probe_texts(messages);
  const std::size_t all = count_all(probe);
  const Arrangement* best = &kArrangements[0];
  std::size_t most = 0;
  for (const Arrangement& arrangement : kArrangements) {
    const std::size_t shown = count_shown(probe, render(arranged(probe, arrangement)));
    if (shown <= most) continue;
    most = shown;
    best = &arrangement;
    if (shown == all) break;
  }
  return arranged(std::move(messages), *best);
}

}  // namespace tp
