#include "runtime/chat/message_order.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <string_view>
#include <system_error>
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

// Ordered from the smallest change to the largest.
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
  const auto content = message.find("content");
  return content != message.end() && content->is_string() && *content != Json("");
}

bool is_joinable(const Json& message) {
  const auto content = message.find("content");
  return content == message.end() || content->is_string() || content->is_null();
}

// A message shows its text before its calls, so no text can follow calls.
bool can_continue(const Json& last, const Json& message) {
  const bool is_same = role_of(last) == role_of(message) &&
                       (is_system(message) || is_user(message) || role_of(message) == "assistant");
  return is_same && is_joinable(last) && is_joinable(message) && !(has_calls(last) && has_text(message));
}

void join_texts(const char* name, const Json& message, Json& last) {
  const auto text = message.find(name);
  if (text == message.end() || !text->is_string() || *text == Json("")) return;
  Json& joined = last[name];
  if (joined.is_string() && joined != Json(""))
    joined.get_ref<std::string&>() += "\n\n" + text->get_ref<const std::string&>();
  else
    joined = *text;
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

// Fills gaps, so that users and assistants alternate and a user begins. Calls do not count as answers.
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

constexpr std::string_view kProbeBegin = "text_";
constexpr std::string_view kProbeEnd = "_of_probe";

std::string probe_text(std::size_t message) { return fmt::format("{}{}{}", kProbeBegin, message, kProbeEnd); }

// The numbers of the messages whose probe texts a text contains, found in one pass.
std::set<std::size_t> probes_in(std::string_view text) {
  std::set<std::size_t> messages;
  for (std::size_t at = text.find(kProbeBegin); at != text.npos; at = text.find(kProbeBegin, at)) {
    at += kProbeBegin.size();
    std::size_t message = 0;
    const char* const end = text.data() + text.size();
    const auto [after, error] = std::from_chars(text.data() + at, end, message);
    const std::string_view rest(after, static_cast<std::size_t>(end - after));
    if (error == std::errc() && rest.starts_with(kProbeEnd)) messages.insert(message);
  }
  return messages;
}

// Replaces messages' texts with probe texts, which no template changes.
Json with_probe_texts(Json messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (has_text(messages[i])) messages[i]["content"] = probe_text(i);
  }
  return messages;
}

bool must_be_shown(const Json& message) {
  return (is_system(message) || is_user(message)) && has_text(message);
}

// One more than the number of system and user texts in a rendered text; 0 if the rendering failed.
std::size_t count_shown(const Json& messages, const std::optional<std::string>& text) {
  if (!text) return 0;
  const std::set<std::size_t> shown = probes_in(*text);
  return 1 + static_cast<std::size_t>(std::ranges::count_if(shown, [&](std::size_t message) {
           return message < messages.size() && must_be_shown(messages[message]);
         }));
}

std::size_t count_all(const Json& messages) {
  return 1 + static_cast<std::size_t>(std::count_if(messages.begin(), messages.end(), must_be_shown));
}

}  // namespace

Json in_accepted_order(Json messages, const OrderRendering& render) {
  constexpr std::size_t kMaxMessages = 10'000;
  if (messages.size() > kMaxMessages) return messages;
  const Json probe = with_probe_texts(messages);
  const std::size_t all = count_all(probe);
  const Arrangement* best = &kArrangements[0];
  std::size_t max = 0;
  for (const Arrangement& arrangement : kArrangements) {
    const std::size_t shown = count_shown(probe, render(arranged(probe, arrangement)));
    if (shown <= max) continue;
    max = shown;
    best = &arrangement;
    if (shown == all) break;
  }
  return arranged(std::move(messages), *best);
}

}  // namespace tp
