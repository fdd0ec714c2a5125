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
// Every turn renders the whole conversation and continues it. Earlier turns are found in the engine's
// prefix cache by their tokens: only new tokens are computed.
class EngineBackend final : public ChatBackend {
 public:
  // `engine` must outlive it.
  EngineBackend(Engine& engine, ChatTemplate chat_template, SamplingFlags sampling);

  ChatAnswer answer(const nlohmann::ordered_json& conversation, const ChatListener& listener) override;
  std::size_t max_length() const override { return engine_.info().options.max_length; }
  SamplingFlags& sampling() override { return sampling_; }

 private:
  // Passes on the continuation of a prompt as it comes.
  ChatAnswer stream(Completion& completion, const ChatListener& listener);
  // The tokens of a rendered conversation: of what was said before, those that are in the cache.
  std::vector<TokenId> encode(const MarkedText& text) const;
  void remember(MarkedText prompt, const Completion& completion);

  Engine& engine_;
  ChatPrompts prompts_;
  SamplingFlags sampling_;
  // The last prompt with its answer, as text and as tokens. The same text could be other tokens: a model does
  // not always choose those that a tokenizer would.
  MarkedText said_;
  std::vector<TokenId> said_ids_;
};

}  // namespace tp
