// Building messages from pieces; tp/message.h has the types.
#pragma once

#include "tp/message.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace tp {

// Appends the text to the last piece if that has the same kind and can be continued. Otherwise adds a piece.
void append(MessagePieces& pieces, MessagePiece::Kind kind, std::string_view text);

// Appends the pieces of a complete call.
void append_call(MessagePieces& pieces, std::string_view name, std::string_view arguments);

// The characters of call ids that Mistral's templates accept.
inline constexpr std::string_view kCallIdCharacters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
inline constexpr std::size_t kCallIdSize = 9;

// Ids of nine letters and digits, the form that Mistral's templates require: a random one, and one that is
// always the same for the same text.
std::string new_call_id();
std::string call_id_from(std::string_view text);

}  // namespace tp
