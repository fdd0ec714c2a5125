// A model's text as a message: its thinking, its text and its tool calls. tp/chat.h reads messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp {

// The next part of a message.
struct MessagePiece {
  enum class Kind : std::uint8_t {
    reasoning,
    text,
    call,       // a call begins: name of its tool
    arguments,  // part of the call's arguments, which are a JSON object
    call_end,
    call_break,  // the call ends, but its arguments are not a complete JSON object
  };

  Kind kind = Kind::text;
  std::string text{};
  std::string id{};  // id of a call, once the call is part of a message
};

using MessagePieces = std::vector<MessagePiece>;

// The way in which a model's text ended.
enum class Ending : std::uint8_t {
  complete,
  cut,  // cut off by a limit
};

// A part of a message: thinking, text, or one call.
struct MessageBlock {
  MessagePiece::Kind kind = MessagePiece::Kind::text;  // reasoning, text or call
  std::size_t index = 0;
  std::string text{};      // for a call: the arguments
  std::string name{};      // calls only
  std::string id{};        // calls only
  bool is_closed = false;  // the block is complete
};

struct ToolCall {
  std::string id{};
  std::string name{};
  std::string arguments{};  // JSON
  bool is_complete = true;  // false: `arguments` is the model's text, which is not JSON
};

struct Message {
  std::string reasoning{};
  std::string text{};
  std::vector<ToolCall> calls{};
  std::vector<MessageBlock> blocks{};  // in the order of the model's text

  // Adds a piece. Assigns an id to a call without one.
  void add(MessagePiece& piece);

 private:
  void add_to_block(const MessagePiece& piece);
};

// Rules for the tool calls of an answer.
struct CallRules {
  bool required = false;      // only calls are allowed; else text, calls, or both
  bool has_one_call = false;  // the answer ends after its first call
  std::string name{};         // the only allowed tool; empty: all tools are allowed
};

}  // namespace tp
