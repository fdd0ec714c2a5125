// The lines of a batch file: one request per line, as a JSON object.
#pragma once

#include "runtime/api/api_request.h"

#include <string_view>

namespace tp {

// Parses a line in one of two formats:
//
//   {"id": any name, "prompt": "..." | "ids": [...] | "messages": [...], "max_tokens": 20, ...}
//   {"custom_id": "...", "method": "POST", "url": "/v1/chat/completions" | "/v1/completions", "body": {...}}
//
// The second is the format of OpenAI's batch API. If the line is invalid, the returned request's `error` says
// why. `where` names the line in errors.
ApiRequest read_batch_line(std::string_view line, std::string_view where);

}  // namespace tp
