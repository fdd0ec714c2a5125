#include "runtime/chat/message.h"

#include <cstdint>
#include <random>
#include <string_view>

namespace tp {

void Message::add(MessagePiece& piece) {
  using Kind = MessagePiece::Kind;
  switch (piece.kind) {
    case Kind::reasoning:
      reasoning += piece.text;
      break;
    case Kind::text:
      text += piece.text;
      break;
    case Kind::call:
      if (piece.id.empty()) piece.id = new_call_id();
      calls.push_back({.id = piece.id, .name = piece.text, .takes_text = piece.takes_text});
      break;
    case Kind::arguments:
      calls.back().arguments += piece.text;
      break;
    case Kind::call_end:
      break;
    case Kind::call_break:
      calls.back().is_complete = false;
      break;
  }
  add_to_block(piece);
}

void Message::add_to_block(const MessagePiece& piece) {
  using Kind = MessagePiece::Kind;
  if (piece.kind == Kind::call_end) blocks.back().is_closed = true;
  if (piece.kind == Kind::call_end || piece.kind == Kind::call_break) return;
  const Kind kind = piece.kind == Kind::arguments ? Kind::call : piece.kind;
  const bool begins = piece.kind == Kind::call || blocks.empty() || blocks.back().kind != kind;
  if (begins) {
    if (!blocks.empty() && blocks.back().kind != Kind::call) blocks.back().is_closed = true;
    blocks.push_back({.kind = kind, .index = blocks.size(), .id = piece.id, .takes_text = piece.takes_text});
  }
  (piece.kind == Kind::call ? blocks.back().name : blocks.back().text) += piece.text;
}

void append(MessagePieces& pieces, MessagePiece::Kind kind, std::string_view text) {
  using Kind = MessagePiece::Kind;
  const bool continues = kind == Kind::reasoning || kind == Kind::text || kind == Kind::arguments;
  if (continues && text.empty()) return;
  if (continues && !pieces.empty() && pieces.back().kind == kind)
    pieces.back().text += text;
  else
    pieces.push_back({.kind = kind, .text = std::string(text)});
}

void append_call(MessagePieces& pieces, std::string_view name, std::string_view arguments) {
  append(pieces, MessagePiece::Kind::call, name);
  append(pieces, MessagePiece::Kind::arguments, arguments);
  append(pieces, MessagePiece::Kind::call_end, "");
}

// By FNV-1a.
std::string call_id_from(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  std::string id;
  for (; id.size() < kCallIdSize; hash /= kCallIdCharacters.size())
    id += kCallIdCharacters[hash % kCallIdCharacters.size()];
  return id;
}

std::string new_call_id() {
  std::random_device random;
  std::string id;
  while (id.size() < kCallIdSize) id += kCallIdCharacters[random() % kCallIdCharacters.size()];
  return id;
}

}  // namespace tp
