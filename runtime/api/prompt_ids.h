#pragma once

#include "tp/token_id.h"

#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Parses a prompt given as a JSON list of token ids. Throws RequestError, naming `where`.
std::vector<TokenId> prompt_ids_of(const nlohmann::ordered_json& list, std::string_view where);

}  // namespace tp
