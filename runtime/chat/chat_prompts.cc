#include "runtime/chat/chat_prompts.h"

#include "model/files/json_text.h"
#include "model/tokenizer/text/unicode.h"
#include "runtime/chat/answer_grammar.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// Refuses misspelled roles, which most templates would ignore or pass on. A template may have further roles.
void check_roles(const Json& messages, const std::string& source) {
  static constexpr std::string_view kUsual[] = {"system", "user", "assistant", "tool", "function"};
  for (const Json& message : messages) {
    const std::string role = message.value("role", "");
    const bool is_known = std::ranges::find(kUsual, role) != std::end(kUsual) ||
                          source.find("'" + role + "'") != source.npos ||
                          source.find("\"" + role + "\"") != source.npos;
    require<RequestError>(is_known,
                          "`messages`: expected the roles system, user, assistant and tool, or others that "
                          "the model's chat template names, found {}",
                          json_text(Json(role.substr(0, 64))));
  }
}

// The rendered text up to the end of the last message's content. The rest, which ends the message, is
// removed.
MarkedText without_end_of_message(const MarkedText& text, const Json& messages) {
  const Json content = messages.back().value("content", Json());
  require<RequestError>(content.is_string(),
                        "`continue_final_message`: the last message has no text to continue");
  const std::string last = unicode::stripped(content.get<std::string>(), true, true);
  const std::size_t place = text.text().rfind(last);
  require<RequestError>(place != std::string::npos,
                        "`continue_final_message`: this model's chat template changes the last message, so "
                        "it cannot be continued; send it as a prompt to completions");
  return text.substr(0, place + last.size());
}

}  // namespace

ChatPrompts::ChatPrompts(ChatTemplate chat_template)
    : template_(std::move(chat_template)), conventions_(template_), tools_(template_) {}

MarkedText ChatPrompts::prompt_of(Json conversation) const {
  const bool continues = conversation.value("continue_final_message", false);
  conversation.erase("continue_final_message");
  const bool begins = conversation.value("add_generation_prompt", !continues);
  require<RequestError>(
      !continues || !begins,
      "`continue_final_message` and `add_generation_prompt` exclude each other; leave one out");
  conversation["add_generation_prompt"] = begins;
  check_roles(conversation.at("messages"), template_.source());
  conventions_.apply(conversation);
  const MarkedText text = template_.render(tools_.adapted(template_, conversation));
  return continues ? without_end_of_message(text, conversation.at("messages")) : text;
}

bool ChatPrompts::begins_thinking(const MarkedText& prompt) const {
  return tools_.syntax().thinking.are_begun_by(prompt.text());
}

AnswerSyntax ChatPrompts::syntax_of(const Json& conversation, const MarkedText& prompt,
                                    const CallRules& rules) const {
  AnswerSyntax syntax = {.is_plain = false,
                         .syntax = tools_.syntax(),
                         .begins_thinking = begins_thinking(prompt),
                         .has_one_call = rules.has_one_call,
                         .tools = ToolSet(conversation.value("tools", Json()))};
  for (const auto& [name, format] : rules.texts) syntax.text_tools.insert(name);
  return syntax;
}

AnswerSyntax ChatPrompts::complete(const Json& conversation, const MarkedText& prompt, const CallRules& rules,
                                   Request& request) const {
  request.stop_token_ids.insert(request.stop_token_ids.end(), stop_ids_.begin(), stop_ids_.end());
  request.visible_token_ids = visible_ids_;
  if (request.thinking) {
    request.thinking = thinking_limit(request.thinking->max_tokens, prompt);
    require<RequestError>(request.thinking.has_value(),
                          "`thinking`: expected a chat template with markers of thinking, such as <think> "
                          "and </think>, found none; leave it out");
  }
  AnswerSyntax syntax = syntax_of(conversation, prompt, rules);
  hold(conversation, rules, request, syntax);
  return syntax;
}

void ChatPrompts::hold(const Json& conversation, const CallRules& rules, Request& request,
                       AnswerSyntax& syntax) const {
  const Json tools = conversation.value("tools", Json::array());
  const auto is_held = [&](const Json& tool) { return has_held_arguments(tool, rules); };
  const bool has_calls =
      request.constraint ? !tools.empty() : rules.required || std::ranges::any_of(tools, is_held);
  if (!has_calls && !request.constraint) return;
  const CallShape& shape = tools_.call_shape();
  const bool thinks = request.thinking || conversation.value("enable_thinking", Json()) != Json(false);
  const Thinking thinking = syntax.begins_thinking ? Thinking::begun
                            : thinks               ? Thinking::maybe
                                                   : Thinking::never;
  if (!has_calls) {
    syntax.tools = ToolSet();
    request.constraint_frame = frame_grammar(syntax.syntax, thinking, false);
    syntax.is_plain = request.constraint_frame.empty();
    return;
  }
  if (request.constraint) {
    syntax.calls_come_first = true;
    request.constraint_frame = calls_or_constraint_grammar(shape, syntax.syntax, tools, rules, thinking);
  } else {
    request.constraint = constraint::Grammar{call_grammar(shape, syntax.syntax, tools, rules)};
    request.constraint_frame = frame_grammar(syntax.syntax, thinking, true);
  }
  syntax.syntax.calls = only_of_shape(std::move(syntax.syntax.calls), shape);
}

void ChatPrompts::require_thinking(bool is_limited) const {
  require<ConfigError>(!is_limited || !tools_.syntax().thinking.empty(),
                       "cannot limit thinking: expected a chat template with markers of thinking, such as "
                       "<think> and </think>, found none; leave `max_thinking_tokens` out");
}

std::optional<ThinkingLimit> ChatPrompts::thinking_limit(int max_tokens, const MarkedText& prompt) const {
  const ThinkingMarkers& markers = tools_.syntax().thinking;
  if (markers.empty()) return std::nullopt;
  return ThinkingLimit{.max_tokens = max_tokens,
                       .begin = markers.begin,
                       .end = markers.end,
                       .end_ids = end_of_thinking_,
                       .has_begun = begins_thinking(prompt)};
}

}  // namespace tp
