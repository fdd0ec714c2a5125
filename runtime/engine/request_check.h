#pragma once

#include "runtime/engine/leader.h"
#include "tp/request.h"

namespace tp {

// Throws RequestError for a request that an engine of these options can never serve.
void check_request(const Request& request, const LeaderOptions& options, bool has_tokenizer);

}  // namespace tp
