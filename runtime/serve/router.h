// Dispatches requests to endpoints.
#pragma once

#include "runtime/http/http_server.h"
#include "runtime/serve/service.h"

namespace tp {

// Finds the endpoint of a request before its body is read. Returns a handler, or the response that refuses
// the request. The handler answers on the pool's threads, or at once if the endpoint is about the server.
// `service` must outlive the handler.
HttpDecision route_request(Service& service, HttpRequest& head);

}  // namespace tp
