// Dispatches requests to endpoints.
#pragma once

#include "runtime/http/http_server.h"
#include "runtime/serve/service.h"

namespace tp {

// Finds the endpoint of a request before its body is read. Returns a handler, which answers on the pool's
// threads, or the response that refuses the request. `service` must outlive the handler.
HttpDecision route_request(Service& service, const HttpRequest& head);

}  // namespace tp
