#pragma once

#include "model/files/json_node.h"
#include "tp/token_id.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

// The control tokens that go around a text, such as BOS in front of it.
struct PostProcessor {
  // A part of what two texts become.
  struct PairPiece {
    enum class Kind : std::uint8_t { first_text, second_text, token };

    Kind kind = Kind::token;
    TokenId token = 0;
    std::uint8_t type = 0;  // of its tokens
  };

  std::vector<TokenId> before;
  std::vector<TokenId> after;
  std::vector<PairPiece> pair{};  // empty: texts do not come in pairs
};

// Reads the value of "post_processor", what it says about single texts and about pairs. `has_token`
// tells which ids exist. Throws CheckpointError.
PostProcessor post_processor_from_json(const JsonNode& json, const std::function<bool(TokenId)>& has_token);

}  // namespace tp
