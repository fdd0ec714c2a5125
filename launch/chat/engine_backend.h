#pragma once

#include "launch/chat/chat_backend.h"
#include "launch/options/sampling_flags.h"
#include "runtime/api/completion.h"
#include "runtime/chat/chat_prompts.h"
#include "tp/engine.h"

#include <vector>

namespace tp {

// Answers with the engine, on rank 0.
//
// Every turn renders the whole conversation and continues it. The engine's prefix cache contains the tokens
// of earlier turns, so only new tokens are computed.
class EngineBackend final : public ChatBackend {
 public:
  // `engine` must outlive it.
  EngineBackend(Engine& engine, ChatTemplate chat_template, SamplingFlags sampling);

  ChatAnswer answer(const nlohmann::ordered_json& conversation, const ChatListener& listener) override;
  std::size_t max_length() const override { return engine_.info().options.max_length; }
  SamplingFlags& sampling() override { return sampling_; }

 private:
  // Streams the continuation of a prompt.
  ChatAnswer stream(Completion& completion, const ChatListener& listener);
  // Returns the tokens of a rendered conversation. For the earlier turns, returns the cached tokens.
  std::vector<TokenId> encode(const MarkedText& text) const;
  void remember(MarkedText prompt, const Completion& completion);

  Engine& engine_;
  ChatPrompts prompts_;
  SamplingFlags sampling_;
  // The last prompt with its answer, as text and as tokens. Both are needed, because a model doesn't always
  // choose the tokens that a tokenizer would.
  MarkedText said_;
  std::vector<TokenId> said_ids_;
};

}  // namespace tp
