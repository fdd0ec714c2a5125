#pragma once

#include "model/weights/checkpoint/json_node.h"
#include "tp/token_id.h"

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

// The control tokens that go around a text, such as BOS in front of it.
struct PostProcessor {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

// Reads the value of "post_processor", of which tp-infer needs what it says about single texts. `has_token`
// tells which ids exist. Throws CheckpointError.
PostProcessor post_processor_from_json(const JsonNode& json, const std::function<bool(TokenId)>& has_token);

}  // namespace tp
