#pragma once

#include "runtime/tools/message.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// A part of a message as the APIs with lists of parts have it: what was thought, said, or one call.
struct MessageBlock {
  MessagePiece::Kind kind = MessagePiece::Kind::text;  // reasoning, text or call
  std::size_t index = 0;
  std::string text{};  // of a call: its arguments
  std::string name{};  // of a call
  std::string id{};    // of a call
};

// A message that is complete. It has at least one block.
std::vector<MessageBlock> blocks_of(const Message& message);

// Divides a stream of pieces into blocks.
class BlockStream {
 public:
  virtual ~BlockStream() = default;

 protected:
  void add(const MessagePieces& pieces);
  // Ends the last block.
  void finish();

  virtual void begin_block(const MessageBlock& block) = 0;
  virtual void extend_block(const MessageBlock& block, const std::string& text) = 0;
  virtual void end_block(const MessageBlock& block) = 0;

 private:
  void begin(MessagePiece::Kind kind, const MessagePiece& piece);
  void end();

  std::optional<MessageBlock> open_{};
  std::size_t blocks_ = 0;
};

}  // namespace tp
