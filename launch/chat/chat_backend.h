// Backends that answer conversations: an engine in this process, or a server.
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
  std::size_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  std::size_t tokens = 0;         // tokens of the answer
};

struct ChatAnswer {
  Message message{};
  FinishReason reason = FinishReason::none;
  std::size_t max_tokens = 0;        // the answer's limit
  std::optional<ChatUsage> usage{};  // missing if the server doesn't report usage
  std::string timings{};             // details about the time; may be empty
};

// Callbacks during an answer.
struct ChatListener {
  std::function<void(const MessagePieces& pieces)> write;  // shows the next parts of the answer
  std::function<bool()> stops;  // polled: whether the user wants to stop the answer
};

class ChatBackend {
 public:
  virtual ~ChatBackend() = default;

  // Returns the next message of a conversation, which is the content of a messages file: `messages`, and
  // other members for a template. Throws RequestError on failure. Later conversations may still succeed.
  virtual ChatAnswer answer(const nlohmann::ordered_json& conversation, const ChatListener& listener) = 0;

  // Returns the maximum number of tokens in a conversation, or 0 if unknown.
  virtual std::size_t max_length() const = 0;

  // The settings of the next answers, which may be changed.
  virtual SamplingFlags& sampling() = 0;
};

}  // namespace tp
