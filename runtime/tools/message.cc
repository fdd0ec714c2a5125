#include "runtime/tools/message.h"

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
      piece.id = new_call_id();
      calls.push_back({.id = piece.id, .name = piece.text});
      break;
    case Kind::arguments:
      calls.back().arguments += piece.text;
      break;
    case Kind::call_end:
      break;
    case Kind::no_call:
      calls.pop_back();
      text += piece.text;
      break;
  }
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

std::string new_call_id() {
  constexpr std::string_view kCharacters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::random_device random;
  std::string id;
  for (int i = 0; i < 9; ++i) id += kCharacters[random() % kCharacters.size()];
  return id;
}

}  // namespace tp
