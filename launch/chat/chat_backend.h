// What answers conversations: the engine that this program runs, or a server.
#pragma once

#include "launch/options/sampling_flags.h"
#include "runtime/chat/message.h"
#include "tp/request.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

struct ChatUsage {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // of the prompt
  std::size_t tokens = 0;         // of the answer
};

struct ChatAnswer {
  Message message{};
  FinishReason reason = FinishReason::none;
  std::size_t max_tokens = 0;        // that it might have had
  std::optional<ChatUsage> usage{};  // a server need not tell
  std::string timings{};             // more about where the time went; may be empty
};

// The user, while an answer comes.
struct ChatListener {
  std::function<void(const MessagePieces& pieces)> write;  // the next parts of the answer
  std::function<bool()> stops;  // whether the answer is to stop: asked all the time
};

class ChatBackend {
 public:
  virtual ~ChatBackend() = default;

  // The next message of a conversation, which is what a messages file holds: `messages`, and other members
  // that a template may use. Throws RequestError if there is none; the next conversation may have one.
  virtual ChatAnswer answer(const nlohmann::ordered_json& conversation, const ChatListener& listener) = 0;

  // Tokens of the longest conversation; 0 if that is not known.
  virtual std::size_t max_length() const = 0;

  // The settings of the next answers, which may be changed.
  virtual SamplingFlags& sampling() = 0;
};

}  // namespace tp
