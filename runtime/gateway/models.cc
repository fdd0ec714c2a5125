#include "runtime/gateway/models.h"

#include "model/files/printable.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

using namespace std::chrono_literals;

constexpr auto kArrangeEvery = 100ms;

std::string quoted(const GatewayModel& model) { return fmt::format("`{}`", printable(model.entry.name)); }

// Whether the model waits for a job to start.
bool wants_start(const GatewayModel& model) {
  return model.supervisor->state() == JobState::stopped && model.dispatcher->waits_since();
}

// Whether the job may be ended for another model, which has waited since `since`.
bool must_yield(const GatewayModel& holder, Supervisor::Clock::time_point since) {
  if (!holder.dispatcher->has_work()) return true;
  if (!holder.supervisor->is_ready()) return false;
  const auto now = Supervisor::Clock::now();
  // A job serves at least as long as its start took, so starts take at most half of the time.
  const std::chrono::duration<double> has_served = now - holder.supervisor->active_since();
  return std::min<std::chrono::duration<double>>(now - since, has_served) >= holder.entry.switch_after &&
         has_served >= holder.supervisor->start_time();
}

}  // namespace

ApiError GatewayModel::unavailable() const {
  const JobState state = supervisor->state();
  const bool is_ending = supervisor->is_ending();
  std::string message = fmt::format("no job is ready: {}", name_of(state));
  if (!entry.name.empty())
    message = fmt::format("no job of the model `{}` is ready: {}", entry.name, name_of(state));
  if (is_ending) message = "this server is shutting down; use another one";
  if (state == JobState::failing || state == JobState::restarting)
    message += fmt::format("; the last one ended: {}", supervisor->last_error());
  return {.status = 503,
          .message = std::move(message),
          .code = std::string(name_of(state)),
          .retry_after = supervisor->retry_after()};
}

Models::Models(HttpServer& http, ModelsOptions options) : http_(http), options_(std::move(options)) {
  for (ModelEntry& entry : options_.config) models_.push_back(make(std::move(entry)));
}

Models::ModelPointer Models::make(ModelEntry entry) {
  auto model = std::make_unique<GatewayModel>(GatewayModel{.entry = std::move(entry)});
  SupervisorOptions jobs = options_.jobs;
  jobs.commands = model->entry.named_commands();
  model->supervisor = std::make_unique<Supervisor>(http_, std::move(jobs), events_of(*model));
  DispatcherOptions requests = options_.requests;
  requests.log = [this, &it = *model](const std::string& line) { log(it, line); };
  requests.on_change = [this] { arrange_soon(); };
  requests.on_failed = [this, &it = *model](const KeptRequest& request, const ApiError& error) {
    if (options_.on_failed) options_.on_failed(it, request, error);
  };
  model->dispatcher = std::make_unique<Dispatcher>(http_, *model->supervisor, std::move(requests));
  return model;
}

Supervisor::Events Models::events_of(GatewayModel& model) {
  Supervisor::Events events;
  events.on_ready = [&model] { model.dispatcher->dispatch(); };
  events.on_lost = [&model](bool is_failure) { model.dispatcher->on_lost(is_failure); };
  events.on_failing = [this, &model](const std::string&) {
    model.dispatcher->fail_all(model.unavailable());
    arrange_soon();
  };
  events.on_hopeless = [this, &model] { on_hopeless(model); };
  events.on_stopped = [this, &model] {
    model.dispatcher->fail_readers(model.unavailable());  // they start no job
    arrange_soon();
  };
  events.on_ended = [this, &model] {
    model.dispatcher->fail_all(
        {.status = 503, .message = "the server is shutting down", .code = "draining", .retry_after = 10.0});
    on_ended();
  };
  events.log = [this, &model](const std::string& line) {
    const std::size_t kept = model.dispatcher->kept_requests();
    log(model, fmt::format("{}; {} request{} kept", line, kept, kept == 1 ? " is" : "s are"));
  };
  return events;
}

void Models::log(const GatewayModel& model, const std::string& line) const {
  if (!options_.log) return;
  options_.log(model.entry.name.empty() ? line : fmt::format("{}: {}", printable(model.entry.name), line));
}

void Models::start() {
  arrange();
  tick();
}

void Models::tick() {
  if (has_ended_) return;
  for (const ModelPointer& model : models_) model->dispatcher->keep_alive();
  arrange();
  http_.post_after(kArrangeEvery, [this] { tick(); });
}

bool Models::expects(std::string_view secret) const {
  return std::ranges::any_of(models_,
                             [&](const ModelPointer& model) { return model->supervisor->expects(secret); });
}

bool Models::announced(std::string_view secret, const Announcement& announcement, const std::string& client) {
  return std::ranges::any_of(models_, [&](const ModelPointer& model) {
    return model->supervisor->announced(secret, announcement, client);
  });
}

GatewayModel* Models::find(std::string_view name, bool only_reads) const {
  if (is_unnamed()) return models_.front().get();
  const auto is_asked = [&](const ModelPointer& model) {
    return name.empty() ? only_reads && model->supervisor->is_ready() : model->entry.has_name(name);
  };
  const auto found = std::ranges::find_if(models_, is_asked);
  if (found != models_.end()) return found->get();
  return name.empty() ? models_.front().get() : nullptr;
}

std::size_t Models::kept_bytes() const {
  std::size_t sum = 0;
  for (const auto* list : {&models_, &removed_}) {
    for (const ModelPointer& model : *list) sum += model->dispatcher->kept_bytes();
  }
  return sum;
}

// Later, because dispatchers and supervisors report changes while they are at work.
void Models::arrange_soon() {
  if (std::exchange(is_arranging_soon_, true)) return;
  http_.post([this] { arrange(); });
}

void Models::arrange() {
  is_arranging_soon_ = false;
  if (ends_) return;
  std::map<std::string, std::vector<GatewayModel*>> groups;
  for (const ModelPointer& model : models_) {
    stop_idle(*model);
    if (model->entry.group.empty())
      arrange_group({model.get()});
    else
      groups[model->entry.group].push_back(model.get());
  }
  for (const ModelPointer& model : removed_) {  // their jobs take the group until they have ended
    if (model->supervisor->is_active() && groups.contains(model->entry.group))
      groups[model->entry.group].push_back(model.get());
  }
  for (const auto& [name, group] : groups) arrange_group(group);
}

void Models::stop_idle(GatewayModel& model) {
  if (model.entry.start == ModelStart::always || model.dispatcher->has_work()) return;
  const auto idle = Clock::now() - std::max(model.dispatcher->last_used(), model.supervisor->active_since());
  const bool is_long = model.entry.idle_stop && idle >= *model.entry.idle_stop;
  if (is_long || model.is_failing()) model.supervisor->stop();
}

// Starts the model of the group that has waited longest, or the one that always runs, if the group is free.
// Drains the job that takes the group if it must yield.
void Models::arrange_group(const std::vector<GatewayModel*>& group) {
  std::vector<GatewayModel*> holders;
  GatewayModel* next = nullptr;
  for (GatewayModel* const model : group) {
    if (model->supervisor->is_active()) holders.push_back(model);
    if (!wants_start(*model)) continue;
    if (next == nullptr || *model->dispatcher->waits_since() < *next->dispatcher->waits_since()) next = model;
  }
  // A reload can put running models into one group: the least recently used ones end.
  std::ranges::sort(holders, {}, [](const GatewayModel* model) { return model->dispatcher->last_used(); });
  for (GatewayModel* const holder : holders) {
    const bool is_last = holder == holders.back();
    const auto since = next == nullptr ? Clock::time_point::max() : *next->dispatcher->waits_since();
    const bool yields = is_last ? next != nullptr && must_yield(*holder, since)
                                : !holder->dispatcher->has_work() || holder->supervisor->is_ready();
    if (!yields || holder->supervisor->state() == JobState::draining) continue;
    ++switches_;
    log(*holder, next == nullptr ? "ends, because another model of its group runs"
                                 : fmt::format("ends, because a request waits for {}", quoted(*next)));
    holder->supervisor->stop();
  }
  if (!holders.empty()) return;
  if (next == nullptr) {
    const auto always = std::ranges::find_if(group, [](const GatewayModel* model) {
      return model->entry.start == ModelStart::always && model->supervisor->state() == JobState::stopped;
    });
    if (always == group.end()) return;
    next = *always;
  } else if (next->entry.start == ModelStart::on_demand) {
    log(*next, "starts, because a request waits for it");
  }
  next->supervisor->start();
}

// A model that was part of the gateway's first configuration and always runs is worth the gateway's end: its
// operator is watching. Other models must not end the service of those that work.
void Models::on_hopeless(GatewayModel& model) {
  const std::string& reason = model.supervisor->hopeless();
  model.dispatcher->fail_all(model.unavailable());
  if (model.entry.start != ModelStart::always || !model.is_original) {
    log(model, fmt::format("no command can start a server: {}; correct the command, and send SIGHUP to the "
                           "gateway",
                           reason));
    return arrange_soon();
  }
  hopeless_ = model.entry.name.empty() ? reason : fmt::format("{}: {}", quoted(model), reason);
  http_.post([this] { end(); });
}

void Models::reload(GatewayConfig config) {
  if (ends_) return;
  bool has_changed = false;
  std::vector<ModelPointer> before = std::exchange(models_, {});
  for (ModelEntry& entry : config) {
    const auto known = std::ranges::find_if(
        before, [&](const ModelPointer& model) { return model && model->entry.name == entry.name; });
    if (known != before.end()) {
      has_changed |= change(**known, std::move(entry));
      models_.push_back(std::move(*known));
      continue;
    }
    has_changed = true;
    models_.push_back(make(std::move(entry)));
    models_.back()->is_original = false;
    log(*models_.back(), "is new");
  }
  for (ModelPointer& model : before) {
    if (!model) continue;
    has_changed = true;
    log(*model, "is not part of the configuration any more, and ends");
    removed_.push_back(std::move(model));
    removed_.back()->supervisor->end();
  }
  if (!has_changed && options_.log) options_.log("the configuration and the programs have not changed");
  arrange_soon();
}

// Returns whether there is a change.
bool Models::change(GatewayModel& model, ModelEntry entry) {
  const bool is_same = entry == model.entry;
  model.entry = std::move(entry);
  if (model.supervisor->reload(model.entry.named_commands())) {
    log(model,
        "has other commands or another program, or could not start: a running job ends after its answers, "
        "and the next one "
        "is new");
    return true;
  }
  model.supervisor->reload_keys();
  return !is_same;
}

void Models::end() {
  ends_ = true;
  // A model without a job ends at once, and may be the last one.
  for (const auto* list : {&models_, &removed_}) {
    for (const ModelPointer& model : *list) model->supervisor->end();
  }
  on_ended();
}

void Models::on_ended() {
  const auto has_ended = [](const ModelPointer& model) {
    return model->supervisor->state() == JobState::ended;
  };
  if (!ends_ || has_ended_ || !std::ranges::all_of(models_, has_ended)) return;
  if (!std::ranges::all_of(removed_, has_ended)) return;
  has_ended_ = true;
  options_.on_ended();
}

}  // namespace tp
