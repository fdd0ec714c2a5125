#pragma once

#include "runtime/scheduling/leader.h"
#include "tp/request.h"

namespace tp {

// Throws RequestError if an engine with these options can never serve the request.
void check_request(const Request& request, const LeaderOptions& options, bool has_tokenizer);

}  // namespace tp
