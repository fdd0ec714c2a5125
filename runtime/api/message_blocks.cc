#include "runtime/api/message_blocks.h"

#include <utility>

namespace tp {

using Kind = MessagePiece::Kind;

std::vector<MessageBlock> blocks_of(const Message& message) {
  return message.blocks.empty() ? std::vector<MessageBlock>(1) : message.blocks;
}

void BlockStream::add(const MessagePieces& pieces) {
  for (MessagePiece piece : pieces) {
    const std::size_t before = message_.blocks.size();
    message_.add(piece);
    MessageBlock& block = message_.blocks.back();
    if (message_.blocks.size() > before) {
      if (is_open_) end_block(message_.blocks[before - 1]);
      is_open_ = true;
      begin_block(block);
    }
    // A broken call ends like a complete call: the client sees that its arguments are not JSON.
    if (piece.kind == Kind::call_end || piece.kind == Kind::call_break)
      end();
    else if (piece.kind != Kind::call)
      extend_block(block, piece.text);
  }
}

void BlockStream::finish() {
  if (message_.blocks.empty()) {
    message_.blocks = blocks_of(message_);
    is_open_ = true;
    begin_block(message_.blocks.back());
  }
  end();
}

void BlockStream::end() {
  if (std::exchange(is_open_, false)) end_block(message_.blocks.back());
}

}  // namespace tp
