// What answers requests, once the model is loaded.
#pragma once

#include "runtime/chat/chat_prompts.h"
#include "runtime/http/http_exchange.h"
#include "runtime/http/http_server.h"
#include "runtime/serve/access.h"
#include "runtime/serve/metrics.h"
#include "runtime/serve/request_log.h"
#include "runtime/serve/worker_pool.h"
#include "runtime/text/embedder.h"
#include "tp/engine.h"

#include <atomic>
#include <chrono>
#include <cstdint>
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
  std::vector<std::string> model_names{};  // under which the model is asked for; the first one is shown
  HttpLimits limits{};
  std::chrono::milliseconds ping_time{15'000};  // of silence after which a stream shows that it lives
  std::size_t pool_threads = 2;
  bool log_json = false;
  RequestLog::Sink log{};
};

// What an open model adds to a server.
struct OpenModel {
  Engine* engine = nullptr;
  std::optional<ChatPrompts> chat{};
  std::string chat_error{};  // why there is no chat
  std::optional<Embedder> embedder{};
  std::string no_embedder{};  // why there is none
  Request defaults{};         // for what a request leaves out
};

// Seconds that rank 0 spent in steps: with the model, exchanging data with other ranks (which includes
// waiting for them), and, of that, waiting in all-reduces, as far as the ranks have compared them.
struct StepTimes {
  double compute = 0.0;
  double collectives = 0.0;
  double waiting = 0.0;
};

enum class ServerState : std::uint8_t { loading, ready, draining, failed };

// Shared by the endpoints, which run on the pool's threads. Members without a remark do not change while
// there are requests.
struct Service {
  using Clock = std::chrono::steady_clock;

  explicit Service(const ServeOptions& given)
      : options(given), access(given.access), log(given.log, given.log_json), pool(given.pool_threads) {}

  const ServeOptions options;
  const Access access;
  Metrics metrics;
  RequestLog log;
  HttpServer* http = nullptr;
  std::atomic<ServerState> state = ServerState::loading;
  const Clock::time_point started = Clock::now();
  std::atomic<bool> is_open = false;  // whether there is a model:
  OpenModel model{};

  const std::string& model_name() const { return options.model_names.front(); }
  // Throws ApiException if a request asks for another model; "" asks for any.
  void require_model(const std::string& asked) const;
  // The headers of every response to this request.
  HttpHeaders headers_for(const HttpRequest& request) const;
  void respond_json(HttpExchange& exchange, int status, const nlohmann::ordered_json& body) const;
  // The response of an error, in the OpenAI API's format.
  HttpResponse response_of(const HttpRequest& request, const ApiError& error) const;

  // Where the time of all steps so far went.
  StepTimes steps() const;
  void set_steps(const StepTimes& times);

  // Calls in progress.
  void enter(const std::shared_ptr<Call>& call);
  void leave(const Call* call);
  // Ends all of them with this error.
  void end_all(const ApiError& error);

  mutable std::mutex mutex;  // guards the two below
  StepTimes step_times{};
  std::map<const Call*, std::weak_ptr<Call>> calls{};

  // The last ones, so that their tasks end first. What takes long must not hold up what must not wait.
  WorkerPool events{1};  // events of requests become responses
  WorkerPool pool;       // requests are parsed and tokenized
};

}  // namespace tp
