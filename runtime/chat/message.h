// What a model's text is as a message: what it thought, what it says, which tools it calls.
#pragma once

#include <cstddef>
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
    call_break,  // the call ends, and its arguments are no complete JSON object
  };

  Kind kind = Kind::text;
  std::string text{};
  std::string id{};  // of a call, once it is part of a message
};

using MessagePieces = std::vector<MessagePiece>;

// How a model's text ended.
enum class Ending : std::uint8_t {
  complete,
  cut,  // the model was not allowed to write more
};

// A part of a message: what was thought, said, or one call.
struct MessageBlock {
  MessagePiece::Kind kind = MessagePiece::Kind::text;  // reasoning, text or call
  std::size_t index = 0;
  std::string text{};      // of a call: its arguments
  std::string name{};      // of a call
  std::string id{};        // of a call
  bool is_closed = false;  // nothing of it is missing
};

struct ToolCall {
  std::string id{};
  std::string name{};
  std::string arguments{};  // JSON
  bool is_complete = true;  // else its arguments are what the model wrote, and no JSON
};

struct Message {
  std::string reasoning{};
  std::string text{};
  std::vector<ToolCall> calls{};
  std::vector<MessageBlock> blocks{};  // in the order in which they were written

  // Gives a call its id, unless it has one.
  void add(MessagePiece& piece);

 private:
  void add_to_block(const MessagePiece& piece);
};

// Adds a piece, to the last one if that is of the same kind and can be continued.
void append(MessagePieces& pieces, MessagePiece::Kind kind, std::string_view text);

// The characters of ids that Mistral's templates accept.
inline constexpr std::string_view kCallIdCharacters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
inline constexpr std::size_t kCallIdSize = 9;

// Random, and of nine letters and digits, as Mistral's templates require.
std::string new_call_id();

}  // namespace tp
