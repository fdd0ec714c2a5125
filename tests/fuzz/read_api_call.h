#pragma once

#include "runtime/api/api_call.h"

#include <cstdint>
#include <string_view>

namespace tp {

// Reads the body of a request to the API with this number.
inline ApiCall read_api_call(std::uint8_t api, std::string_view text) {
  const nlohmann::ordered_json body = parse_body(text);
  switch ((api - '0') % 4) {
    case 0:
      return read_openai_call(body, ApiRequest::Form::chat_completion);
    case 1:
      return read_openai_call(body, ApiRequest::Form::text_completion);
    case 2:
      return read_responses_call(body);
    default:
      return read_messages_call(body);
  }
}

}  // namespace tp
