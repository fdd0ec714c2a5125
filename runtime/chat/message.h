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

// A random id of nine letters and digits, the form that Mistral's templates require.
std::string new_call_id();

}  // namespace tp
