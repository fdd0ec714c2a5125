#pragma once

#include "model/tokenizer/chat_template.h"
#include "tp/engine.h"

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// How one converses with a model: the prompt that its chat template makes of messages, and the tokens with
// which it ends an answer.
class ChatPrompts {
 public:
  // `engine` must outlive it and have a tokenizer.
  ChatPrompts(const Engine& engine, ChatTemplate chat_template);

  // The text that the model is to continue with its answer. `conversation` has `messages`, and perhaps more
  // that the template knows by name. Control tokens are written out: encode it without adding any. Throws
  // RequestError if the template refuses the messages.
  std::string prompt_of(nlohmann::ordered_json conversation) const;

  // The tokens with which the model may end an answer, besides those of its configuration.
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }

 private:
  std::vector<TokenId> find_stop_ids(const Engine& engine) const;

  ChatTemplate template_;
  std::vector<TokenId> stop_ids_;
};

}  // namespace tp
