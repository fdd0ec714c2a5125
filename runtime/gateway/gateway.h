// The process in front of jobs: README.md.
#pragma once

#include "runtime/access/access.h"
#include "runtime/gateway/models.h"
#include "runtime/gateway/refusals.h"
#include "runtime/http/http_server.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tp {

struct GatewayOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free port
  HttpLimits limits{};
  AccessRules access{};
  std::size_t keep_bytes = std::size_t{1} << 30;  // kept requests
  GatewayConfig config{};
  SupervisorOptions supervisor{};  // without commands and the URL
  DispatcherOptions requests{};    // without functions
  // A file of the page; nullopt if there is none at this path.
  std::function<std::optional<HttpResponse>(std::string_view path)> page{};
  std::function<void(const std::string& line)> log{};
  bool logs_requests = true;  // lines about requests that the gateway refuses itself
  bool log_json = false;      // the lines about requests are JSON
};

class Gateway {
 public:
  // Listens. Throws ConfigError if it cannot listen at the address.
  explicit Gateway(GatewayOptions options);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  std::uint16_t port() const { return http_->port(); }

  // Starts the models that always run, and waits until the gateway has ended. Returns the reason if one of
  // them can never run, else an empty text.
  std::string run();

  // All may be called from any thread. end() works like Models::end().
  void reload(GatewayConfig config);
  void set_keys(ApiKeys keys) { access_.set_keys(std::move(keys)); }
  void end();
  // Calls `call` on the gateway's thread whenever the descriptor is readable, until `call` returns false.
  void when_readable(int descriptor, std::function<bool()> call) {
    http_->when_readable(descriptor, std::move(call));
  }

 private:
  using Exchange = std::shared_ptr<HttpExchange>;
  using Handler = void (Gateway::*)(const Exchange& exchange);

  HttpOptions http_options();
  ModelsOptions models_options();
  HttpDecision route(HttpRequest& head);
  std::optional<HttpDecision> route_own(HttpRequest& head);
  HttpDecision calling(Handler handler);
  // Whether the gateway checks hosts, origins and keys.
  bool checks_access() const { return !models_->is_unnamed() || !options_.access.is_empty(); }
  std::optional<ApiError> access_refusal(HttpRequest& head, bool is_public) const;
  HttpHeaders origin_headers(const HttpRequest& head) const;
  HttpResponse response_of(const HttpRequest& head, const ApiError& error) const;
  HttpResponse refuse(const HttpRequest& head, const ApiError& error, const std::string& model = "");
  std::optional<ApiError> refusal(std::size_t length) const;
  std::optional<ApiError> refusal(const GatewayModel& model, bool only_reads) const;
  void take(const Exchange& exchange);
  void answer_health(const Exchange& exchange);
  void answer_metrics(const Exchange& exchange);
  void answer_models(const Exchange& exchange);
  void take_announcement(const Exchange& exchange);
  std::string own_metrics() const;
  std::string url() const;

  const GatewayOptions options_;
  Access access_;
  // A condition, because the thread sanitizer delivers no signals to a thread that waits for a future.
  std::condition_variable ended_;
  std::mutex mutex_;
  bool has_ended_ = false;
  // The server's thread may get a request before the constructor has ended.
  std::promise<void> constructed_;
  std::shared_future<void> is_constructed_ = constructed_.get_future().share();
  // Members of the server's thread. The server ends before them.
  std::unique_ptr<Models> models_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> requests_{};  // by model and user
  Refusals refusals_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tp
