// The state that endpoints share, including the model once it is loaded.
#pragma once

#include "runtime/access/access.h"
#include "runtime/access/request_log.h"
#include "runtime/chat/chat_prompts.h"
#include "runtime/http/http_exchange.h"
#include "runtime/http/http_server.h"
#include "runtime/serve/metrics.h"
#include "runtime/serve/worker_pool.h"
#include "runtime/text/embedder.h"
#include "tp/engine.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

class Call;

struct ServeOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  AccessRules access{};
  // Reads the file of keys again; null without a file. May throw ConfigError.
  std::function<ApiKeys()> read_keys{};
  std::vector<std::string> model_names{};  // accepted model names; the first is shown
  HttpLimits limits{};
  std::chrono::milliseconds ping_time{15'000};  // silence after which a stream sends a ping
  std::size_t pool_threads = 2;
  std::string
      gateway_secret{};  // secret shared with the gateway in front of this server; empty: there is none
  bool log_json = false;
  RequestLog::Sink log{};
};

// The parts that an open model adds to a server.
struct OpenModel {
  Engine* engine = nullptr;
  std::optional<ChatPrompts> chat{};
  std::string chat_error{};  // reason if `chat` is empty
  std::optional<Embedder> embedder{};
  std::string no_embedder{};                // reason if `embedder` is empty
  Request defaults{};                       // defaults for absent settings of requests
  nlohmann::ordered_json tokenizer_info{};  // see tokenizer_info.h
};

// Seconds that rank 0 spent in steps. `collectives`: exchanging data with other ranks, including waiting for
// them. `waiting`: the part of `collectives` spent waiting in all-reduces, estimated from the latest reports.
struct StepSeconds {
  double compute = 0.0;
  double collectives = 0.0;
  double waiting = 0.0;
};

enum class ServerState : std::uint8_t { loading, ready, draining, failed };

// Shared by the endpoints, which run on the pool's threads. Members without a comment do not change while the
// server handles requests.
struct Service {
  using Clock = std::chrono::steady_clock;

  explicit Service(const ServeOptions& given)
      : options(given), access(given.access), log(given.log, given.log_json), pool(given.pool_threads) {}

  const ServeOptions options;
  Access access;
  Metrics metrics;
  RequestLog log;
  HttpServer* http = nullptr;
  std::atomic<ServerState> state = ServerState::loading;
  const Clock::time_point started = Clock::now();
  std::atomic<Clock::time_point> step_began{};  // the epoch: no step is running
  std::atomic<bool> is_open = false;            // whether `model` is set
  OpenModel model{};

  const std::string& model_name() const { return options.model_names.front(); }
  // The adapter that a request asks for by the name of its model: unset if the name is empty, and empty for
  // the model itself. Throws ApiException if there is no such model.
  std::optional<std::string> adapter_of(const std::string& asked) const;
  // Headers of every response to this request.
  HttpHeaders headers_for(const HttpRequest& request) const;
  void respond_json(HttpExchange& exchange, int status, const nlohmann::ordered_json& body) const;
  // Returns why the request is refused, or nullopt, after setting its `client` and `user`. If the
  // gateway has checked the request, only its key is checked again, because this server may have keys of its
  // own. A server without keys answers others than its gateway only at public paths.
  std::optional<ApiError> refusal(HttpRequest& request, bool is_public) const;
  // Reads the file of keys again. Returns the number of valid keys; nullopt without a file. Throws
  // ConfigError, and keeps its keys.
  std::optional<std::size_t> reload_keys();
  // Whether the gateway in front of this server sent the request. Throws ApiException if the request only
  // claims it.
  bool is_of_gateway(const HttpRequest& request) const;
  // The response for an error, in the format of the request's API.
  HttpResponse response_of(const HttpRequest& request, const ApiError& error) const;

  // Times of all steps so far.
  StepSeconds steps() const;
  void set_steps(const StepSeconds& times);

  // Logs a request that has ended; `line` lacks the members that `request` contains.
  void log_request(const HttpRequest& request, LoggedRequest line) const;

  // Calls in progress.
  void enter(const std::shared_ptr<Call>& call);
  void leave(const Call* call);
  // Ends all calls in progress with this error.
  void end_all(const ApiError& error);

  mutable std::mutex mutex;  // guards step_times and calls
  StepSeconds step_times{};
  std::map<const Call*, std::weak_ptr<Call>> calls{};

  // Declared last, so that their tasks end first. Two pools, because slow work must not delay urgent work.
  WorkerPool events{1};  // events of requests become responses
  WorkerPool pool;       // requests are parsed and tokenized
};

}  // namespace tp
