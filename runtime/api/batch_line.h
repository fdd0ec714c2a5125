// The lines of a batch: one JSON object each, a request.
#pragma once

#include "runtime/api/api_request.h"

#include <string_view>

namespace tp {

// Reads a line, in either of two forms:
//
//   {"id": any name, "prompt": "..." | "ids": [...] | "messages": [...], "max_tokens": 20, ...}
//   {"custom_id": "...", "method": "POST", "url": "/v1/chat/completions" | "/v1/completions", "body": {...}}
//
// The second is that of OpenAI's batch API. What is wrong with a line is its request's `error`; `where` is
// the line's place, for whoever tells of one.
ApiRequest read_batch_line(std::string_view line, std::string_view where);

}  // namespace tp
