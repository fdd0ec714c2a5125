// A model's text as a message: its thinking, its text and its tool calls. tp/chat.h reads messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tp {

// The next part of a message.
struct MessagePiece {
  enum class Kind : std::uint8_t {
    reasoning,
    text,
    call,       // a call begins: name of its tool
    arguments,  // part of the call's arguments, which are a JSON object, or a text (CallRules::texts)
    call_end,
    call_break,  // the call ends, but its arguments are not a complete JSON object
  };

  Kind kind = Kind::text;
  std::string text{};
  std::string id{};         // id of a call, once the call is part of a message
  bool takes_text = false;  // for a call: the arguments are a text
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
  std::string text{};       // for a call: the arguments
  std::string name{};       // calls only
  std::string id{};         // calls only
  bool is_closed = false;   // the block is complete
  bool takes_text = false;  // for a call: the arguments are a text
};

struct ToolCall {
  std::string id{};
  std::string name{};
  std::string arguments{};  // JSON
  bool is_complete = true;  // false: `arguments` is the model's text, which is not JSON
  bool takes_text = false;  // the arguments are a text (CallRules::texts)
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

// The format of a text that a tool gets.
struct TextFormat {
  enum class Syntax : std::uint8_t { any, lark, regex };

  Syntax syntax = Syntax::any;
  std::string definition{};  // a Lark grammar, or a regular expression
};

// Rules for the tool calls of an answer.
struct CallRules {
  bool required = false;      // only calls are allowed; else text, calls, or both
  bool has_one_call = false;  // the answer ends after its first call
  std::string name{};         // the only allowed tool; empty: all tools are allowed
  // Tools that get a text instead of arguments, by name. The model sees functions with one parameter,
  // kTextParameter. The arguments of their calls are the texts.
  std::map<std::string, TextFormat> texts{};
};

inline constexpr const char* kTextParameter = "input";

}  // namespace tp
