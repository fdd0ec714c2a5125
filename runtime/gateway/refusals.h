// The requests that the gateway answers with an error of its own. No server logs or counts them.
#pragma once

#include "runtime/api/api_error.h"
#include "runtime/http/http_message.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace tp {

// All members run on the thread of the HTTP server.
class Refusals {
 public:
  // `log` gets a line for each request, without its end. It may be null, and must not block.
  Refusals(std::function<void(const std::string& line)> log, bool as_json)
      : log_(std::move(log)), as_json_(as_json) {}

  // Counts and logs a request. `model`: the name of its entry in the configuration, never a name that a
  // client chose; empty if no entry is known. `seconds`: time since the request came.
  void add(const HttpRequest& request, const ApiError& error, const std::string& model = "",
           double seconds = 0.0);

  // The counter in the text format of Prometheus.
  std::string metrics() const;

 private:
  std::function<void(const std::string& line)> log_;
  bool as_json_;
  std::map<std::pair<std::string, int>, std::uint64_t> counts_{};  // by model and HTTP status
};

}  // namespace tp
