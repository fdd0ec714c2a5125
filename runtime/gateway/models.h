// The models behind one address, and the decision which of their jobs run. README.md explains groups and
// switches.
#pragma once

#include "runtime/gateway/config.h"
#include "runtime/gateway/dispatcher.h"
#include "runtime/gateway/supervisor.h"
#include "runtime/http/http_server.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A model, its jobs and its requests.
struct GatewayModel {
  ModelEntry entry;
  bool is_original = true;  // the gateway has started with it
  std::unique_ptr<Supervisor> supervisor{};
  std::unique_ptr<Dispatcher> dispatcher{};

  bool is_failing() const { return supervisor->state() == JobState::failing; }
  // Why the model answers no request now.
  ApiError unavailable() const;
};

struct ModelsOptions {
  GatewayConfig config{};
  SupervisorOptions jobs{};      // without commands
  DispatcherOptions requests{};  // without functions
  std::function<void(const std::string& line)> log{};
  // Called when the gateway ends a request with an error of its own.
  std::function<void(const GatewayModel& model, const KeptRequest& request, const ApiError& error)>
      on_failed{};
  std::function<void()> on_ended{};
};

// All members run on the thread of the HTTP server.
class Models {
 public:
  Models(HttpServer& http, ModelsOptions options);
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  // Starts the models that always run.
  void start();
  // Whether a job that was started has this secret.
  bool expects(std::string_view secret) const;
  // Whether a job has this secret. It is ready now.
  bool announced(std::string_view secret, const Announcement& announcement, const std::string& client);

  // In the order of the configuration.
  const std::vector<std::unique_ptr<GatewayModel>>& all() const { return models_; }
  // Whether the configuration has only a model without a name.
  bool is_unnamed() const { return models_.front()->entry.name.empty(); }
  // Null if no model has the name. Without a name: the first model, or for a request that only reads
  // something, the first model that is ready, if there is one.
  GatewayModel* find(std::string_view name, bool only_reads) const;

  // Takes a changed configuration, and logs what it changes. Models that are no longer part of it finish
  // their answers and end.
  void reload(GatewayConfig config);
  // Drains all jobs, and starts no other. A second call ends the jobs at once.
  void end();

  bool is_ending() const { return ends_; }
  // Why a model that always runs can never run, so that the gateway has ended; empty: it has not.
  const std::string& hopeless() const { return hopeless_; }
  std::size_t kept_bytes() const;
  std::size_t switches() const { return switches_; }

 private:
  using Clock = Supervisor::Clock;
  using ModelPointer = std::unique_ptr<GatewayModel>;

  ModelPointer make(ModelEntry entry);
  Supervisor::Events events_of(GatewayModel& model);
  void log(const GatewayModel& model, const std::string& line) const;
  void tick();
  void arrange_soon();
  void arrange();
  void stop_idle(GatewayModel& model);
  void arrange_group(const std::vector<GatewayModel*>& group);
  void on_hopeless(GatewayModel& model);
  void on_ended();
  bool change(GatewayModel& model, ModelEntry entry);

  HttpServer& http_;
  ModelsOptions options_;
  std::vector<ModelPointer> models_{};
  std::vector<ModelPointer> removed_{};  // by reloads; their last events may still come
  bool is_arranging_soon_ = false;
  bool ends_ = false;
  bool has_ended_ = false;
  std::size_t switches_ = 0;
  std::string hopeless_{};
};

}  // namespace tp
