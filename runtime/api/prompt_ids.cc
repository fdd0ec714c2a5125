#include "runtime/api/prompt_ids.h"

#include "model/files/json_text.h"
#include "tp/internal/require.h"

#include <limits>

#include <nlohmann/json.hpp>

namespace tp {

std::vector<TokenId> prompt_ids_of(const nlohmann::ordered_json& list, std::string_view where) {
  require<RequestError>(list.is_array(), "{}: expected a JSON list of token ids, found {}", where,
                        list.type_name());
  std::vector<TokenId> ids;
  for (const auto& id : list) {
    require<RequestError>(id.is_number_integer() && id >= 0 && id <= std::numeric_limits<TokenId>::max(),
                          "{}: expected token ids (whole numbers from 0), found {} at place {}", where,
                          json_text(id), ids.size());
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

}  // namespace tp
