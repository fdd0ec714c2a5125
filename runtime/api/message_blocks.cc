#include "runtime/api/message_blocks.h"

#include <utility>

namespace tp {

using Kind = MessagePiece::Kind;

std::vector<MessageBlock> blocks_of(const Message& message) {
  std::vector<MessageBlock> blocks;
  const auto add = [&](MessageBlock block) {
    block.index = blocks.size();
    blocks.push_back(std::move(block));
  };
  if (!message.reasoning.empty()) add({.kind = Kind::reasoning, .text = message.reasoning});
  if (!message.text.empty() || (message.calls.empty() && message.reasoning.empty()))
    add({.text = message.text});
  for (const ToolCall& call : message.calls)
    add({.kind = Kind::call, .text = call.arguments, .name = call.name, .id = call.id});
  return blocks;
}

void BlockStream::add(const MessagePieces& pieces) {
  for (const MessagePiece& piece : pieces) {
    // What was sent as a call stays one; a client sees that its arguments are no JSON.
    if (piece.kind == Kind::call_end || piece.kind == Kind::no_call) {
      end();
    } else if (piece.kind == Kind::call) {
      begin(Kind::call, piece);
    } else {
      const Kind kind = piece.kind == Kind::arguments ? Kind::call : piece.kind;
      if (!open_ || open_->kind != kind) begin(kind, {});
      open_->text += piece.text;
      extend_block(*open_, piece.text);
    }
  }
}

void BlockStream::finish() {
  if (!open_ && blocks_ == 0) begin(Kind::text, {});
  end();
}

void BlockStream::begin(Kind kind, const MessagePiece& piece) {
  end();
  open_.emplace();
  open_->kind = kind;
  open_->index = blocks_++;
  open_->name = piece.text;
  open_->id = piece.id;
  begin_block(*open_);
}

void BlockStream::end() {
  if (open_) end_block(*open_);
  open_.reset();
}

}  // namespace tp
