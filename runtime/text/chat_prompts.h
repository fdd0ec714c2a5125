#pragma once

#include "model/tokenizer/chat_template.h"
#include "tp/engine.h"

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Renders conversations with the model's chat template, and knows the tokens that end a reply.
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

  // Tokens that may end a reply, besides the configuration's end-of-sequence tokens.
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }

 private:
  std::vector<TokenId> find_stop_ids(const Engine& engine) const;

  ChatTemplate template_;
  std::vector<TokenId> stop_ids_;
};

}  // namespace tp
