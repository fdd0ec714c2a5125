#pragma once

#include "runtime/chat/message.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// The blocks of a complete message: at least one, which may be an empty text.
std::vector<MessageBlock> blocks_of(const Message& message);

// Divides a stream of pieces into the blocks of blocks_of.
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
  void end();

  Message message_{};
  bool is_open_ = false;  // whether the last block is open
};

}  // namespace tp
