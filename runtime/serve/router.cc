#include "runtime/serve/router.h"

#include "model/files/printable.h"
#include "runtime/serve/page.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tp {
namespace {

struct Route {
  std::string_view path;  // a leading /v1 is optional; a final * matches any rest
  std::string_view method;
  void (*run)(Service&, const endpoints::Exchange&);
  bool is_public = false;        // needs no key
  bool is_about_server = false;  // answers while the model is loading, too, and is not logged
  bool is_anthropic = false;     // errors have Anthropic's format
};

constexpr Route kRoutes[] = {
    {.path = "/v1/chat/completions", .method = "POST", .run = endpoints::chat_completions},
    {.path = "/v1/completions", .method = "POST", .run = endpoints::completions},
    {.path = "/v1/responses", .method = "POST", .run = endpoints::responses},
    {.path = "/v1/messages", .method = "POST", .run = endpoints::messages, .is_anthropic = true},
    {.path = "/v1/messages/count_tokens",
     .method = "POST",
     .run = endpoints::count_message_tokens,
     .is_anthropic = true},
    {.path = "/v1/embeddings", .method = "POST", .run = endpoints::embeddings},
    {.path = "/v1/rerank", .method = "POST", .run = endpoints::rerank},
    {.path = "/v2/rerank", .method = "POST", .run = endpoints::rerank},
    {.path = "/v1/reranking", .method = "POST", .run = endpoints::rerank},
    {.path = "/v1/models", .method = "GET", .run = endpoints::models},
    {.path = "/v1/models/*", .method = "GET", .run = endpoints::model},
    {.path = "/v1/tokenize", .method = "POST", .run = endpoints::tokenize},
    {.path = "/v1/detokenize", .method = "POST", .run = endpoints::detokenize},
    {.path = "/v1/apply-template", .method = "POST", .run = endpoints::apply_template},
    {.path = "/v1/status", .method = "GET", .run = endpoints::status, .is_about_server = true},
    {.path = "/health",
     .method = "GET",
     .run = endpoints::health,
     .is_public = true,
     .is_about_server = true},
    {.path = "/v1/health",
     .method = "GET",
     .run = endpoints::health,
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
  constexpr std::string_view kPrefix = "/v1";
  for (const Route& route : kRoutes) {
    if (matches(path, route.path)) return &route;
    if (route.path.starts_with("/v1/") && matches(path, route.path.substr(kPrefix.size()))) return &route;
  }
  return nullptr;
}

bool allows(std::string_view allowed, std::string_view method) {
  return method == allowed || (method == "HEAD" && allowed == "GET");
}

ApiError fault(int status, std::string message, std::string code = "") {
  return {.status = status,
          .type = error_type_of(status),
          .message = std::move(message),
          .code = std::move(code)};
}

bool has_coding(const HttpRequest& head) {
  const std::string_view coding = head.header("content-encoding");
  return !coding.empty() && lower_case(coding) != "identity";
}

std::optional<ApiError> fault_of_state(ServerState state) {
  ApiError error;
  switch (state) {
    case ServerState::ready:
      return std::nullopt;
    case ServerState::loading:
      error = fault(503, "the model is being loaded; try again in a moment", "loading");
      break;
    case ServerState::draining:
      error = fault(503, "this server is shutting down; use another one", "draining");
      break;
    case ServerState::failed:
      error = fault(503, "a rank was lost; this server ends", "failed");
      break;
  }
  error.retry_after = state == ServerState::loading ? 2.0 : 10.0;
  return error;
}

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  const std::string_view type = content_type.substr(0, content_type.find_first_of("; "));
  return std::ranges::equal(type, kJson,
                            [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

}  // namespace

std::optional<ApiError> Router::find_fault(const HttpRequest& head) const {
  const Route* const route = find_route(head.path());
  const PageFile* const file = find_page_file(head.path());
  const bool is_public = file != nullptr || (route != nullptr && route->is_public);
  if (const std::optional<ApiError> refusal = service_.access.refusal(head, is_public)) return refusal;
  if (route == nullptr && file == nullptr) {
    return fault(404,
                 fmt::format("there is nothing at {}; the API is at /v1, and a page to try it at /",
                             printable(head.path())),
                 "not_found");
  }
  const std::string_view allowed = route != nullptr ? route->method : "GET";
  if (!allows(allowed, head.method))
    return fault(405, fmt::format("{} takes {}, not {}", printable(head.path()), allowed, head.method));
  if (has_coding(head)) {
    return fault(415, fmt::format("expected a body without `Content-Encoding`, found {}; send it as it is",
                                  printable(head.header("content-encoding"))));
  }
  // An HTML form on any web page can send requests, but only with other content types.
  if (allowed == "POST" && !is_json(head.header("content-type"))) {
    return fault(415,
                 fmt::format("expected the header `Content-Type: application/json`, found {}",
                             head.header("content-type").empty() ? "none" : head.header("content-type")));
  }
  if (file != nullptr || route->is_about_server) return std::nullopt;
  return fault_of_state(service_.state);
}

HttpResponse Router::error_response(const HttpRequest& head, const ApiError& error) const {
  HttpResponse response = service_.response_of(head, error);
  const Route* const route = find_route(head.path());
  if (route != nullptr && route->is_anthropic)
    response.body = json_text(make_messages_format()->error(error));
  // RFC 9110, section 12.5.3: the header says that the coding was the reason.
  if (error.status == 415 && has_coding(head)) response.headers.emplace_back("Accept-Encoding", "identity");
  if (error.status == 405 && route != nullptr) response.headers.emplace_back("Allow", route->method);
  return response;
}

HttpResponse Router::answer_options(const HttpRequest& head) const {
  HttpResponse response{.status = 204, .content_type = "", .headers = service_.headers_for(head)};
  const Route* const route = find_route(head.path());
  const std::string methods = fmt::format("{}, OPTIONS", route != nullptr ? route->method : "GET");
  response.headers.emplace_back("Allow", methods);
  if (head.header("origin").empty()) return response;
  const std::string_view wanted = head.header("access-control-request-headers");
  response.headers.emplace_back("Access-Control-Allow-Methods", methods);
  response.headers.emplace_back("Access-Control-Allow-Headers", wanted.empty()
                                                                    ? "authorization, content-type, x-api-key"
                                                                    : std::string(wanted));
  response.headers.emplace_back("Access-Control-Max-Age", "3600");
  return response;
}

std::optional<HttpResponse> Router::refusal(const HttpRequest& head) const {
  // A browser's preflight request has no key.
  if (head.method == "OPTIONS") {
    if (const std::optional<ApiError> refusal = service_.access.refusal(head, true))
      return error_response(head, *refusal);
    return answer_options(head);
  }
  const std::optional<ApiError> fault = find_fault(head);
  if (!fault) return std::nullopt;
  service_.metrics.count_refusal(fault->status);
  service_.log.add({.client = head.client,
                    .method = head.method,
                    .path = printable(head.path()),
                    .status = fault->status,
                    .reason = short_reason(*fault)});
  return error_response(head, *fault);
}

void Router::handle(std::shared_ptr<HttpExchange> exchange) const {
  if (const PageFile* const file = find_page_file(exchange->request().path())) {
    HttpResponse response{.body = std::string(file->content), .content_type = std::string(file->type)};
    response.headers = page_headers();
    return exchange->respond(std::move(response));
  }
  // Status requests must not wait for anything.
  if (find_route(exchange->request().path())->is_about_server) return run(exchange);
  service_.pool.post([this, exchange = std::move(exchange)] { run(exchange); });
}

void Router::run(const std::shared_ptr<HttpExchange>& exchange) const {
  const HttpRequest& request = exchange->request();
  const Route* const route = find_route(request.path());
  try {
    route->run(service_, exchange);
  } catch (const std::exception& error) {
    const ApiError reported = api_error_of(error);
    exchange->respond(error_response(request, reported));
    if (route->is_about_server) return;
    service_.metrics.count_refusal(reported.status);
    service_.log.add({.client = request.client,
                      .method = request.method,
                      .path = printable(request.path()),
                      .status = reported.status,
                      .param = reported.param,
                      .reason = short_reason(reported)});
  }
}

}  // namespace tp
