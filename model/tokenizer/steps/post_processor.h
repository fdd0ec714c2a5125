#pragma once

#include "model/files/json_node.h"
#include "tp/token_id.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tp {

// The control tokens around a text, such as BOS before it.
struct PostProcessor {
  // A part of the tokens of a text pair.
  struct PairPiece {
    enum class Kind : std::uint8_t { first_text, second_text, token };

    Kind kind = Kind::token;
    TokenId token = 0;
    std::uint8_t type = 0;  // type of the part's tokens
  };

  std::vector<TokenId> before;
  std::vector<TokenId> after;
  std::vector<PairPiece> pair{};  // empty: text pairs are not supported
};

// Reads the value of "post_processor": its templates for single texts and for pairs. `has_token` returns
// whether an id exists. Throws CheckpointError.
PostProcessor post_processor_from_json(const JsonNode& json, const std::function<bool(TokenId)>& has_token);

}  // namespace tp
