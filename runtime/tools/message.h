// What a model's text is as a message: what it thought, what it says, which tools it calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The next part of a message.
struct MessagePiece {
  enum class Kind : std::uint8_t {
    reasoning,
    text,
    call,       // a call begins: the name of its tool
    arguments,  // more of the call's arguments, which are a JSON object
    call_end,
    // The call that has begun turns out to be none: the text that it is instead. A stream that has passed the
    // call on leaves it as it is.
    no_call,
  };

  Kind kind = Kind::text;
  std::string text{};
  std::string id{};  // of a call, once it is part of a message
};

using MessagePieces = std::vector<MessagePiece>;

struct ToolCall {
  std::string id{};
  std::string name{};
  std::string arguments{};  // JSON
};

struct Message {
  std::string reasoning{};
  std::string text{};
  std::vector<ToolCall> calls{};

  // Gives a call its id.
  void add(MessagePiece& piece);
};

// Adds a piece, to the last one if that is of the same kind and can be continued.
void append(MessagePieces& pieces, MessagePiece::Kind kind, std::string_view text);

// Random, and of nine letters and digits, as Mistral's templates require.
std::string new_call_id();

}  // namespace tp
