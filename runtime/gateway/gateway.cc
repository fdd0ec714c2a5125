#include "runtime/gateway/gateway.h"

#include "model/files/parse_number.h"
#include "model/files/percent_decoded.h"
#include "model/files/printable.h"
#include "runtime/api/answer_format.h"
#include "runtime/gateway/model_reports.h"
#include "runtime/gateway/request_members.h"
#include "runtime/http/http_call.h"
#include "runtime/http/http_message.h"
#include "tp/error.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

using namespace std::chrono_literals;

constexpr auto kFlushTime = 2s;

// The path without /v1.
std::string_view short_path(const HttpRequest& request) {
  constexpr std::string_view kPrefix = "/v1/";
  std::string_view path = request.path();
  if (path.starts_with(kPrefix)) path.remove_prefix(kPrefix.size() - 1);
  return path;
}

constexpr std::string_view kModelPath = "/models/";

bool only_reads(const HttpRequest& request) { return request.method != "POST"; }

constexpr const char* kNoSecret = "expected the secret of a job that starts, found another text";

// A server has better messages, but no server starts for a body that every server refuses.
constexpr const char* kNoObject = "expected a JSON object in the body, found another text";

ApiError no_such_model(const std::string& name, const Models& models) {
  return {.status = 404,
          .message = fmt::format("there is no model `{}` here; this server has {}", printable(name),
                                 names_of(models)),
          .param = "model",
          .code = "model_not_found"};
}

}  // namespace

Gateway::Gateway(GatewayOptions options)
    : options_(std::move(options)),
      access_(options_.access),
      refusals_(options_.logs_requests ? options_.log : nullptr, options_.log_json),
      http_(std::make_unique<HttpServer>(http_options())) {
  models_ = std::make_unique<Models>(*http_, models_options());
  constructed_.set_value();
}

Gateway::~Gateway() { http_.reset(); }

HttpOptions Gateway::http_options() {
  HttpOptions options{.host = options_.host, .port = options_.port, .limits = options_.limits};
  options.route = [this](HttpRequest& head) { return route(head); };
  options.refuse = [this](const HttpRequest& head, int status, std::string_view message) {
    is_constructed_.wait();
    const ApiError error{.status = status, .message = std::string(message)};
    refusals_.add(head, error);
    return error_response(head, error, origin_headers(head));
  };
  return options;
}

ModelsOptions Gateway::models_options() {
  ModelsOptions options{
      .config = options_.config, .jobs = options_.supervisor, .requests = options_.requests};
  options.jobs.announce_url = url();
  options.on_ended = [this] {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    ended_.notify_one();
  };
  options.on_failed = [this](const GatewayModel& model, const KeptRequest& request, const ApiError& error) {
    const auto seconds = std::chrono::duration<double>(KeptRequest::Clock::now() - request.came);
    refusals_.add(request.request(), error, model.entry.name, seconds.count());
  };
  options.log = [this](const std::string& line) {
    if (options_.log) options_.log("tp-infer gateway: " + line);
  };
  return options;
}

std::string Gateway::url() const { return usable_url(options_.host, port()).append(kAnnouncePath); }

std::string Gateway::run() {
  http_->post([this] { models_->start(); });
  {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return has_ended_; });
  }
  http_->flush(kFlushTime);
  return models_->hopeless();
}

void Gateway::reload(GatewayConfig config) {
  http_->post([this, config = std::move(config)]() mutable { models_->reload(std::move(config)); });
}

void Gateway::end() {
  http_->post([this] { models_->end(); });
}

HttpDecision Gateway::calling(Handler handler) {
  return [this, handler](const Exchange& exchange) { (this->*handler)(exchange); };
}

HttpDecision Gateway::route(HttpRequest& head) {
  is_constructed_.wait();
  if (only_reads(head)) head.max_body = kNoBodyBytes;
  if (std::optional<HttpDecision> own = route_own(head)) return *std::move(own);
  // The gateway's own calls of its servers, which the gateway's secret would admit.
  if (head.path().starts_with("/tp-infer/"))
    return refuse(head, {.status = 404, .message = "only the gateway uses this path", .code = "not_found"});
  const bool is_preflight = head.method == "OPTIONS";  // a preflight request has no key
  if (const std::optional<ApiError> error = access_refusal(head, is_preflight)) return refuse(head, *error);
  const std::size_t length = parse_number<std::size_t>(head.header("content-length")).value_or(0);
  if (const std::optional<ApiError> error = refusal(length)) return refuse(head, *error);
  if (is_preflight && !models_->is_unnamed()) return response_of(head, {});
  const bool lists_models = short_path(head) == "/models" || short_path(head).starts_with(kModelPath);
  if (lists_models && only_reads(head) && !models_->is_unnamed()) return calling(&Gateway::answer_models);
  return calling(&Gateway::take);
}

// The paths that need no key.
std::optional<HttpDecision> Gateway::route_own(HttpRequest& head) {
  const std::string_view path = head.path();
  if (path.starts_with(kAnnouncePath)) {
    head.max_body = models_->expects(secret_in(path)) ? kMaxAnnouncement : kNoBodyBytes;
    return calling(&Gateway::take_announcement);
  }
  if (short_path(head) == "/health") {
    head.max_body = kNoBodyBytes;
    return calling(&Gateway::answer_health);
  }
  if (path == "/metrics") {
    head.max_body = kNoBodyBytes;
    // A key is needed where the answer names users.
    const bool is_public = !access_.has_keys();
    if (const std::optional<ApiError> error = access_refusal(head, is_public)) return refuse(head, *error);
    return calling(&Gateway::answer_metrics);
  }
  if (!options_.page || (head.method != "GET" && head.method != "HEAD")) return std::nullopt;
  if (std::optional<HttpResponse> file = options_.page(path)) return *std::move(file);
  return std::nullopt;
}

// Servers check hosts, origins and keys themselves. The gateway checks them, too, if it has rules, or if a
// request could start a job.
std::optional<ApiError> Gateway::access_refusal(HttpRequest& head, bool is_public) const {
  const bool may_lack_key = access_.identify(head) || is_public;
  if (!checks_access()) return std::nullopt;
  return access_.refusal(head, may_lack_key);
}

// For web pages of origins that the gateway or a server allows.
HttpHeaders Gateway::origin_headers(const HttpRequest& head) const {
  std::vector<std::string> allowed = options_.access.origins;
  for (const auto& model : models_->all()) {
    const std::vector<std::string>& own = model->supervisor->announcement().origins;
    allowed.insert(allowed.end(), own.begin(), own.end());
  }
  const Origins origins(std::move(allowed));
  HttpHeaders headers = origins.headers(head);
  if (head.method != "OPTIONS") return headers;
  for (const auto& header : origins.preflight_headers(head, "GET, POST, DELETE, OPTIONS"))
    headers.push_back(header);
  return headers;
}

// A browser sends no request after an OPTIONS that fails, and would hide the reason from the page.
HttpResponse Gateway::response_of(const HttpRequest& head, const ApiError& error) const {
  if (head.method != "OPTIONS") return error_response(head, error, origin_headers(head));
  return {.status = 204, .content_type = "", .headers = origin_headers(head)};
}

// `model`: the name of the request's model, if it is known.
HttpResponse Gateway::refuse(const HttpRequest& head, const ApiError& error, const std::string& model) {
  if (head.method != "OPTIONS") refusals_.add(head, error, model);
  return response_of(head, error);
}

// The reason why a request for any model cannot be kept. `length`: bytes of its body.
std::optional<ApiError> Gateway::refusal(std::size_t length) const {
  const GatewayModel& first = *models_->all().front();
  if (models_->is_ending()) return first.unavailable();
  if (models_->is_unnamed() && first.is_failing()) return first.unavailable();
  const std::size_t kept = models_->kept_bytes();
  if (kept + length <= options_.keep_bytes) return std::nullopt;
  return ApiError{.status = 503,
                  .message = fmt::format("the gateway keeps requests of {} bytes, of at most {} "
                                         "(--keep-bytes); try again later",
                                         kept, options_.keep_bytes),
                  .code = "overloaded",
                  .retry_after = first.supervisor->retry_after()};
}

// The reason why a request for this model cannot be kept.
std::optional<ApiError> Gateway::refusal(const GatewayModel& model, bool only_reads) const {
  if (models_->is_ending() || model.is_failing()) return model.unavailable();
  if (only_reads && model.supervisor->state() == JobState::stopped) return model.unavailable();
  return model.dispatcher->refusal();
}

void Gateway::take(const Exchange& exchange) {
  const HttpRequest& head = exchange->request();
  std::string body = exchange->take_body();
  // Chunked bodies announce no length.
  if (const std::optional<ApiError> error = refusal(body.size()))
    return exchange->respond(refuse(head, *error));
  const bool reads = only_reads(head);
  RequestMembers members = reads ? RequestMembers{} : members_of(body);
  if (members.model.empty()) members.model = query_value(head.target, "model");
  GatewayModel* const model = models_->find(members.model, reads);
  if (model == nullptr) return exchange->respond(refuse(head, no_such_model(members.model, *models_)));
  const std::string& name = model->entry.name;
  if (const std::optional<ApiError> error = refusal(*model, reads))
    return exchange->respond(refuse(head, *error, name));
  const bool would_start = !reads && model->supervisor->state() == JobState::stopped;
  if (would_start && !begins_object(body))
    return exchange->respond(refuse(head, {.status = 400, .message = kNoObject}, name));
  if (!reads && !head.user.empty()) ++requests_[{name, head.user}];
  model->dispatcher->add(std::make_shared<KeptRequest>(exchange, std::move(body), members,
                                                       origin_headers(head), checks_access()));
}

// With several models, the gateway is well if one of them can answer. Monitoring asks again and again, so
// this is never logged or counted.
void Gateway::answer_health(const Exchange& exchange) {
  const HttpRequest& head = exchange->request();
  const GatewayModel& first = *models_->all().front();
  if (models_->is_unnamed()) {
    if (!first.supervisor->is_ready()) return exchange->respond(response_of(head, first.unavailable()));
    return exchange->respond({.body = json_text({{"status", "ok"}, {"state", name_of(JobState::ready)}})});
  }
  nlohmann::ordered_json states;
  for (const auto& model : models_->all()) states[model->entry.name] = name_of(model->supervisor->state());
  const bool is_well = std::ranges::any_of(models_->all(), [](const auto& model) {
    const JobState state = model->supervisor->state();
    return state == JobState::ready || state == JobState::stopped;
  });
  if (!is_well || models_->is_ending()) return exchange->respond(response_of(head, first.unavailable()));
  exchange->respond({.body = json_text({{"status", "ok"}, {"models", std::move(states)}})});
}

void Gateway::answer_metrics(const Exchange& exchange) {
  const std::string name = query_value(exchange->request().target, "model");
  const GatewayModel& first = *models_->all().front();
  if (models_->is_unnamed() && first.supervisor->is_ready()) {
    first.dispatcher->add(
        std::make_shared<KeptRequest>(exchange, "", RequestMembers{}, HttpHeaders{}, checks_access()),
        [this] { return own_metrics(); });
    return;
  }
  if (!name.empty()) return take(exchange);
  exchange->respond({.body = own_metrics(), .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

std::string Gateway::own_metrics() const {
  std::string text = metrics_report(*models_) + refusals_.metrics();
  if (requests_.empty()) return text;
  text +=
      "# HELP tpinfer:gateway_requests_total Requests, by the name of their key.\n"
      "# TYPE tpinfer:gateway_requests_total counter\n";
  for (const auto& [labels, count] : requests_)
    text += fmt::format("tpinfer:gateway_requests_total{{{}user=\"{}\"}} {}\n",
                        labels.first.empty() ? "" : fmt::format("model=\"{}\",", label_text(labels.first)),
                        label_text(labels.second), count);
  return text;
}

void Gateway::answer_models(const Exchange& exchange) {
  const HttpRequest& head = exchange->request();
  const std::string_view path = short_path(head);
  HttpHeaders headers = origin_headers(head);
  if (!path.starts_with(kModelPath))
    return exchange->respond({.body = json_text(models_report(*models_)), .headers = std::move(headers)});
  const std::string name = percent_decoded(path.substr(kModelPath.size()));
  const GatewayModel* const model = models_->find(name, true);
  if (model == nullptr || name.empty()) return exchange->respond(refuse(head, no_such_model(name, *models_)));
  exchange->respond({.body = json_text(model_report(*model, name)), .headers = std::move(headers)});
}

void Gateway::take_announcement(const Exchange& exchange) {
  const std::string secret = secret_in(exchange->request().path());
  try {
    const Announcement announcement = parse_announcement(exchange->take_body());
    const bool is_known = models_->announced(secret, announcement, exchange->request().client);
    if (!is_known)
      return exchange->respond(refuse(exchange->request(), {.status = 403, .message = kNoSecret}));
    exchange->respond({.body = "{}"});
  } catch (const RequestError& error) {
    exchange->respond(refuse(exchange->request(), {.status = 400, .message = error.what()}));
  }
}

}  // namespace tp
