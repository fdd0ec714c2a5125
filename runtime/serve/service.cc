#include "runtime/serve/service.h"

#include "model/files/json_text.h"
#include "runtime/api/answer_format.h"
#include "runtime/api/record.h"
#include "runtime/serve/call.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

ApiError not_of_gateway() {
  return {.status = 403,
          .message =
              "expected a request of the gateway that started this server, found another one; use the "
              "gateway's address, or give this server keys of its own (--api-key-file)",
          .code = "not_of_gateway"};
}

}  // namespace

std::optional<std::string> Service::adapter_of(const std::string& asked) const {
  const std::vector<std::string>& names = options.model_names;
  const std::vector<AdapterInfo>& adapters = model.engine->info().adapters;
  if (asked.empty()) return std::nullopt;
  if (std::ranges::find(names, asked) != names.end()) return "";
  if (std::ranges::find(adapters, asked, &AdapterInfo::name) != adapters.end()) return asked;
  const std::string with_adapters =
      adapters.empty() ? "" : fmt::format(" and its adapters, which /v1/models lists");
  throw ApiException({.status = 404,
                      .message = fmt::format("there is no model `{}` here; this server has {}{}", asked,
                                             names.front(), with_adapters),
                      .param = "model",
                      .code = "model_not_found"});
}

HttpHeaders Service::headers_for(const HttpRequest& request) const {
  return access.origins().headers(request);
}

void Service::respond_json(HttpExchange& exchange, int status, const nlohmann::ordered_json& body) const {
  exchange.respond({.status = status, .body = json_text(body), .headers = headers_for(exchange.request())});
}

std::optional<ApiError> Service::refusal(HttpRequest& request, bool is_public) const {
  try {
    const bool is_from_gateway = is_of_gateway(request);
    // The gateway checks keys, and the server may listen at an address of a network.
    const bool is_for_gateway_only = !options.gateway_secret.empty() && !access.has_keys();
    if (!is_from_gateway && !is_public && is_for_gateway_only) return not_of_gateway();
    const std::string_view client = request.header(gateway_header::kClient);
    if (is_from_gateway && !client.empty()) request.client = client;  // possibly a trusted proxy
    const bool may_lack_key = access.identify(request) || is_public;
    const std::string_view user = request.header(gateway_header::kUser);
    if (!is_from_gateway || user.empty()) return access.refusal(request, may_lack_key);
    if (request.user.empty() && user != gateway_header::kNobody) request.user = user;
    return may_lack_key ? std::nullopt : std::optional(Access::lack_of_key());
  } catch (const ApiException& error) {
    return error.error();
  }
}

std::optional<std::size_t> Service::reload_keys() {
  if (!options.read_keys) return std::nullopt;
  ApiKeys keys = options.read_keys();
  const std::size_t count = keys.size();
  access.set_keys(std::move(keys));
  return count;
}

bool Service::is_of_gateway(const HttpRequest& request) const {
  const std::string_view secret = request.header(gateway_header::kSecret);
  if (secret.empty()) return false;
  const bool is_right =
      equal_in_constant_time(secret, options.gateway_secret) && !options.gateway_secret.empty();
  if (!is_right) throw ApiException({.status = 403, .message = "the header `tp-gateway` is not this job's"});
  return true;
}

HttpResponse Service::response_of(const HttpRequest& request, const ApiError& error) const {
  const bool is_anthropic = expects_anthropic_errors(request.path(), request.header("anthropic-version"));
  HttpResponse response{.status = error.status,
                        .body = json_text(error_body(is_anthropic, error)),
                        .headers = headers_for(request)};
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.retry_after)
    response.headers.emplace_back("Retry-After", fmt::format("{:.0f}", std::max(1.0, *error.retry_after)));
  if (error.job_ends && !options.gateway_secret.empty())
    response.headers.emplace_back(gateway_header::kLost, "1");
  return response;
}

void Service::log_request(const HttpRequest& request, LoggedRequest line) const {
  log.add(logged(request, std::move(line)));
}

StepSeconds Service::steps() const {
  const std::lock_guard lock(mutex);
  return step_times;
}

void Service::set_steps(const StepSeconds& times) {
  const std::lock_guard lock(mutex);
  step_times = times;
}

void Service::enter(const std::shared_ptr<Call>& call) {
  const std::lock_guard lock(mutex);
  calls[call.get()] = call;
}

void Service::leave(const Call* call) {
  const std::lock_guard lock(mutex);
  calls.erase(call);
}

void Service::end_all(const ApiError& error) {
  std::map<const Call*, std::weak_ptr<Call>> all;
  {
    const std::lock_guard lock(mutex);
    all = calls;
  }
  for (const auto& [key, entry] : all) {
    if (const auto call = entry.lock()) call->fail(error);
  }
}

}  // namespace tp
