#include "runtime/serve/router.h"

#include "model/files/printable.h"
#include "model/files/similar_name.h"
#include "runtime/serve/endpoints.h"
#include "runtime/serve/page.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::string_view kPrefix = "/v1";

struct Route {
  std::string_view path;  // a leading /v1 is optional; a final * matches any rest
  std::string_view method;
  void (*run)(Service&, const endpoints::Exchange&);
  bool is_public = false;        // needs no key
  bool is_about_server = false;  // answers while the model is loading, too, and is not logged
};

constexpr Route kRoutes[] = {
    {.path = "/v1/chat/completions", .method = "POST", .run = endpoints::chat_completions},
    {.path = "/v1/completions", .method = "POST", .run = endpoints::completions},
    {.path = "/v1/responses", .method = "POST", .run = endpoints::responses},
    {.path = "/v1/messages", .method = "POST", .run = endpoints::messages},
    {.path = "/v1/messages/count_tokens", .method = "POST", .run = endpoints::count_message_tokens},
    {.path = "/v1/embeddings", .method = "POST", .run = endpoints::embeddings},
    {.path = "/v1/rerank", .method = "POST", .run = endpoints::rerank},
    {.path = "/v2/rerank", .method = "POST", .run = endpoints::rerank},
    {.path = "/v1/reranking", .method = "POST", .run = endpoints::rerank},
    {.path = "/v1/score", .method = "POST", .run = endpoints::score},
    {.path = "/v1/models", .method = "GET", .run = endpoints::models},
    {.path = "/v1/models/*", .method = "GET", .run = endpoints::model},
    {.path = "/v1/tokenize", .method = "POST", .run = endpoints::tokenize},
    {.path = "/v1/detokenize", .method = "POST", .run = endpoints::detokenize},
    {.path = "/v1/tokenizer_info", .method = "GET", .run = endpoints::tokenizer_info},
    {.path = "/v1/apply-template", .method = "POST", .run = endpoints::apply_template},
    {.path = "/v1/status", .method = "GET", .run = endpoints::status, .is_about_server = true},
    {.path = "/v1/kv-store", .method = "DELETE", .run = endpoints::clear_store},
    {.path = "/v1/health",
     .method = "GET",
     .run = endpoints::health,
     .is_public = true,
     .is_about_server = true},
    {.path = "/tp-infer/reload",
     .method = "POST",
     .run = endpoints::reload_keys,
     .is_public = true,
     .is_about_server = true},
    {.path = "/version", .method = "GET", .run = endpoints::version, .is_about_server = true},
    {.path = "/metrics", .method = "GET", .run = endpoints::metrics, .is_about_server = true},
};

bool matches(std::string_view path, std::string_view pattern) {
  if (!pattern.ends_with('*')) return path == pattern;
  pattern.remove_suffix(1);
  return path.starts_with(pattern) && path.size() > pattern.size();
}

const Route* find_route(std::string_view path) {
  static constexpr Route kPage{
      .path = "/", .method = "GET", .run = endpoints::page_file, .is_public = true, .is_about_server = true};
  if (find_page_file(path) != nullptr) return &kPage;
  for (const Route& route : kRoutes) {
    if (matches(path, route.path)) return &route;
    if (route.path.starts_with("/v1/") && matches(path, route.path.substr(kPrefix.size()))) return &route;
  }
  return nullptr;
}

bool allows(std::string_view allowed, std::string_view method) {
  return method == allowed || (method == "HEAD" && allowed == "GET");
}

bool has_coding(const HttpRequest& head) {
  const std::string_view coding = head.header("content-encoding");
  return !coding.empty() && lower_case(coding) != "identity";
}

std::optional<ApiError> fault_of_state(ServerState state) {
  switch (state) {
    case ServerState::ready:
      break;
    case ServerState::loading:
      return ApiError{.status = 503,
                      .message = "the model is being loaded; try again in a moment",
                      .code = "loading",
                      .retry_after = 2.0,
                      .job_ends = true};
    case ServerState::draining:
      return ApiError{.status = 503,
                      .message = "this server is shutting down; use another one",
                      .code = "draining",
                      .retry_after = 10.0,
                      .job_ends = true};
    case ServerState::failed:
      return ApiError{.status = 503,
                      .message = "a rank was lost; this server ends",
                      .code = "failed",
                      .retry_after = 10.0,
                      .job_ends = true};
  }
  return std::nullopt;
}

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  const std::string_view type = content_type.substr(0, content_type.find_first_of("; "));
  return std::ranges::equal(type, kJson,
                            [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

// The endpoint that a path means: the one at its end, as in /openai/v1/models, or the one with the most
// similar name; empty without one.
std::string nearest_endpoint(std::string_view path) {
  const auto without_prefix = [](std::string_view name) {
    return name.starts_with("/v1/") ? name.substr(kPrefix.size()) : name;
  };
  while (path.ends_with('/')) path.remove_suffix(1);
  std::vector<std::string> names;
  std::string_view at_end;
  for (const Route& route : kRoutes) {
    if (route.path.ends_with('*') || route.path.starts_with("/tp-infer/")) continue;
    names.emplace_back(without_prefix(route.path));
    if (path.ends_with(names.back()) && route.path.size() > at_end.size()) at_end = route.path;
  }
  if (!at_end.empty()) return std::string(at_end);
  const std::string similar = similar_name(without_prefix(path), names);
  const auto* const found = std::ranges::find_if(
      kRoutes, [&](const Route& route) { return !similar.empty() && without_prefix(route.path) == similar; });
  return found == std::end(kRoutes) ? "" : std::string(found->path);
}

std::string no_endpoint_at(std::string_view path) {
  if (path == "/v1" || path == "/v1/") {
    return "this is the base URL of the API, expected the path of an endpoint, such as "
           "/v1/chat/completions, /v1/responses, /v1/messages or /v1/models; a page to try the model is at /";
  }
  if (path.starts_with("/v1/v1/")) {
    return fmt::format("expected one /v1 in the path, found two in {}; remove /v1 from the client's base URL",
                       printable(path));
  }
  const std::string nearest = nearest_endpoint(path);
  if (!nearest.empty())
    return fmt::format("this server has no endpoint {}; did you mean {}?", printable(path), nearest);
  if (path.starts_with("/api/")) {
    return fmt::format(
        "this server has no endpoint {}, because it does not serve Ollama's API; use OpenAI's, whose base "
        "URL "
        "is /v1",
        printable(path));
  }
  return fmt::format(
      "this server has no endpoint {}, expected one such as /v1/chat/completions or "
      "/v1/models; a page to try the model is at /",
      printable(path));
}

std::optional<ApiError> find_fault(const Service& service, HttpRequest& head, const Route* route) {
  const bool is_public = route != nullptr && route->is_public;
  if (const std::optional<ApiError> refusal = service.refusal(head, is_public)) return refusal;
  if (route == nullptr)
    return ApiError{.status = 404, .message = no_endpoint_at(head.path()), .code = "not_found"};
  if (!allows(route->method, head.method))
    return ApiError{
        .status = 405,
        .message = fmt::format("{} takes {}, not {}", printable(head.path()), route->method, head.method)};
  if (has_coding(head)) {
    return ApiError{
        .status = 415,
        .message = fmt::format("expected a body without `Content-Encoding`, found {}; send it as it is",
                               printable(head.header("content-encoding")))};
  }
  // An HTML form on any web page can send requests, but only with other content types.
  if (route->method == "POST" && !is_json(head.header("content-type"))) {
    return ApiError{
        .status = 415,
        .message = fmt::format("expected the header `Content-Type: application/json`, found {}",
                               head.header("content-type").empty() ? "none" : head.header("content-type"))};
  }
  return route->is_about_server ? std::nullopt : fault_of_state(service.state);
}

HttpResponse error_response(const Service& service, const HttpRequest& head, const Route* route,
                            const ApiError& error) {
  HttpResponse response = service.response_of(head, error);
  // RFC 9110, section 12.5.3: the header says that the coding was the reason.
  if (error.status == 415 && has_coding(head)) response.headers.emplace_back("Accept-Encoding", "identity");
  if (error.status == 405 && route != nullptr) response.headers.emplace_back("Allow", route->method);
  return response;
}

// The answer to a browser's preflight request.
HttpResponse answer_options(const Service& service, const HttpRequest& head, const Route* route) {
  HttpResponse response{.status = 204, .content_type = "", .headers = service.headers_for(head)};
  const std::string methods = fmt::format("{}, OPTIONS", route != nullptr ? route->method : "GET");
  response.headers.emplace_back("Allow", methods);
  for (const auto& header : service.access.origins().preflight_headers(head, methods))
    response.headers.push_back(header);
  return response;
}

// Counts and logs a request that is refused.
HttpResponse refuse(Service& service, const HttpRequest& request, const Route* route, const ApiError& error) {
  service.metrics.count_refusal(error.status);
  service.log_request(request, {.status = error.status, .param = error.param, .reason = short_reason(error)});
  return error_response(service, request, route, error);
}

void run(Service& service, const Route& route, const endpoints::Exchange& exchange) {
  try {
    route.run(service, exchange);
  } catch (const std::exception& thrown) {
    const ApiError error = api_error_of(thrown);
    const HttpRequest& request = exchange->request();
    exchange->respond(route.is_about_server ? error_response(service, request, &route, error)
                                            : refuse(service, request, &route, error));
  }
}

}  // namespace

HttpDecision route_request(Service& service, HttpRequest& head) {
  const Route* const route = find_route(head.path());
  // A browser's preflight request has no key.
  if (head.method == "OPTIONS") {
    const std::optional<ApiError> refusal = service.refusal(head, true);
    return refusal ? error_response(service, head, route, *refusal) : answer_options(service, head, route);
  }
  if (const std::optional<ApiError> fault = find_fault(service, head, route))
    return refuse(service, head, route, *fault);
  if (route->is_public || route->method != "POST") head.max_body = kNoBodyBytes;
  return [&service, route](std::shared_ptr<HttpExchange> exchange) {
    // Status requests must not wait for anything.
    if (route->is_about_server) return run(service, *route, exchange);
    service.pool.post([&service, route, exchange = std::move(exchange)] { run(service, *route, exchange); });
  };
}

}  // namespace tp
