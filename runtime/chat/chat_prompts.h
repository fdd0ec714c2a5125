#pragma once

#include "model/chat/chat_template.h"
#include "runtime/chat/call_rules.h"
#include "runtime/chat/message_reader.h"
#include "runtime/chat/tool_conventions.h"
#include "runtime/chat/tool_rendering.h"
#include "tp/engine.h"

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Renders conversations with the model's chat template, and knows how replies are written and end.
class ChatPrompts {
 public:
  // `engine` must outlive it and have a tokenizer.
  ChatPrompts(const Engine& engine, ChatTemplate chat_template);

  // The prompt for the model's next reply. `conversation` has `messages`, and any further variables of the
  // template; with `continue_final_message` the reply continues the last of the messages. The text contains
  // its control tokens: encode it without adding any. What stems from the conversation is input, see
  // ChatTemplate::render. Throws RequestError if the template rejects the messages. May be called by several
  // threads.
  MarkedText prompt_of(nlohmann::ordered_json conversation) const;

  // How the reply to a prompt of prompt_of() has to be read.
  AnswerSyntax syntax_of(const nlohmann::ordered_json& conversation, const MarkedText& prompt) const;
  // Control tokens that such a reader needs.
  const std::vector<TokenId>& visible_ids() const { return visible_ids_; }
  // Holds the reply to its constraint, after what the model thinks; else, where `rules` or strict tools want
  // it, to calls whose arguments are what the tools allow. `request` is that of the prompt, and `syntax` that
  // of syntax_of(). Throws RequestError.
  void hold(const nlohmann::ordered_json& conversation, const CallRules& rules, Request& request,
            AnswerSyntax& syntax) const;
  // Throws ConfigError if a limit of thinking is asked for and this model does not think.
  void require_thinking(bool is_limited) const;
  // Limits thinking in the reply to a prompt; nothing if the model does not think.
  std::optional<ThinkingLimit> thinking_limit(int max_tokens, const MarkedText& prompt) const;

  // Tokens that may end a reply, besides the configuration's end-of-sequence tokens.
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }

 private:
  std::vector<TokenId> find_stop_ids(const Engine& engine) const;
  std::vector<TokenId> find_visible_ids(const Engine& engine) const;
  std::vector<TokenId> find_end_of_thinking(const Engine& engine) const;
  bool begins_thinking(const MarkedText& prompt) const;

  ChatTemplate template_;
  ToolConventions conventions_;
  ToolRendering tools_;
  std::vector<TokenId> stop_ids_;
  std::vector<TokenId> visible_ids_;
  std::vector<TokenId> end_of_thinking_;
};

}  // namespace tp
