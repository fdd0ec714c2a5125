#pragma once

#include "runtime/http/http_server.h"

#include <string_view>

namespace tp::test {

// Options of a server on a free port. It has no paths: it is there for its thread.
inline HttpOptions server_of_jobs() {
  HttpOptions options{.port = 0};
  options.route = [](const HttpRequest&) -> HttpDecision { return HttpResponse{.status = 404}; };
  options.refuse = [](const HttpRequest&, int status, std::string_view) {
    return HttpResponse{.status = status};
  };
  return options;
}

}  // namespace tp::test
