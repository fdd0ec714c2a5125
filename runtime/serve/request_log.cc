#include "runtime/serve/request_log.h"

#include "runtime/api/rounded.h"

#include <chrono>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

std::string now() {
  const auto time = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                     ms);
}

Json json_of(const LoggedRequest& request) {
  Json line = {{"time", now()},        {"client", request.client}, {"method", request.method},
               {"path", request.path}, {"status", request.status}, {"seconds", rounded(request.total)}};
  if (!request.id.empty()) line["id"] = request.id;
  if (request.prompt_tokens != 0) {
    line["prompt_tokens"] = request.prompt_tokens;
    line["cached_tokens"] = request.cached_tokens;
    line["generated_tokens"] = request.generated_tokens;
    line["queued_seconds"] = rounded(request.queued);
    line["first_token_seconds"] = rounded(request.first_token);
  }
  if (!request.reason.empty()) line["reason"] = request.reason;
  return line;
}

std::string text_of(const LoggedRequest& request) {
  std::string line =
      fmt::format("{} {} {} {} {}", now(), request.client, request.method, request.path, request.status);
  if (!request.id.empty()) line += fmt::format(" {}", request.id);
  if (request.prompt_tokens != 0) {
    line += fmt::format(" prompt={} cached={} generated={} queued={:.3f}s first_token={:.3f}s",
                        request.prompt_tokens, request.cached_tokens, request.generated_tokens,
                        request.queued, request.first_token);
  }
  line += fmt::format(" total={:.3f}s", request.total);
  if (!request.reason.empty()) line += " " + request.reason;
  return line;
}

}  // namespace

void RequestLog::add(const LoggedRequest& request) const {
  if (!sink_) return;
  sink_(as_json_ ? json_of(request).dump(-1, ' ', false, Json::error_handler_t::replace) : text_of(request));
}

}  // namespace tp
