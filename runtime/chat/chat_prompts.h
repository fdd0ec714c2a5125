#pragma once

#include "model/chat/chat_template.h"
#include "runtime/chat/message_reader.h"
#include "runtime/chat/tool_conventions.h"
#include "runtime/chat/tool_rendering.h"
#include "tp/engine.h"
#include "tp/message.h"

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Renders conversations with the model's chat template, and knows how the model writes and ends replies.
class ChatPrompts {
 public:
  // `engine` must outlive the object and have a tokenizer.
  ChatPrompts(const Engine& engine, ChatTemplate chat_template);
  // Without an engine, no ids of tokens are known. Texts are the same.
  explicit ChatPrompts(ChatTemplate chat_template);

  // The prompt for the model's next reply. `conversation` has `messages`, and any further variables of the
  // template. With `continue_final_message` the reply continues the last message. The text contains its
  // control tokens: encode it without adding any. Text from the conversation is marked as input, see
  // ChatTemplate::render. Throws RequestError if the template rejects the messages. Thread-safe.
  MarkedText prompt_of(nlohmann::ordered_json conversation) const;

  // Completes the request for the reply to a prompt of prompt_of(), except its prompt: adds stop tokens,
  // visible tokens and thinking's markers, and applies the rules, see hold(). Returns the reply's syntax.
  // Throws RequestError, also if the request limits thinking but the model does not think.
  AnswerSyntax complete(const nlohmann::ordered_json& conversation, const MarkedText& prompt,
                        const CallRules& rules, Request& request) const;

  // The syntax of the reply to a prompt of prompt_of().
  AnswerSyntax syntax_of(const nlohmann::ordered_json& conversation, const MarkedText& prompt,
                         const CallRules& rules) const;
  // Control tokens that must stay visible to the reader of a reply.
  const std::vector<TokenId>& visible_ids() const { return visible_ids_; }
  // Applies the request's constraint to the reply after thinking. With tools, the reply is calls or a text
  // that satisfies the constraint; it is calls if `rules` require them. Without a constraint, if `rules` or
  // strict tools demand it, constrains the reply to calls with arguments that the tools allow. `request` is
  // the prompt's request, and `syntax` the result of syntax_of(). Throws RequestError.
  void hold(const nlohmann::ordered_json& conversation, const CallRules& rules, Request& request,
            AnswerSyntax& syntax) const;
  // Throws ConfigError if `is_limited` and the model does not think.
  void require_thinking(bool is_limited) const;
  // The limit of thinking in the reply to a prompt; nullopt if the model does not think.
  std::optional<ThinkingLimit> thinking_limit(int max_tokens, const MarkedText& prompt) const;

  // Tokens that may end a reply, in addition to the configuration's end-of-sequence tokens.
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
