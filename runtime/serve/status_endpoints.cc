// The endpoints for the status of the server and its model.
#include "model/files/percent_decoded.h"
#include "runtime/api/rounded.h"
#include "runtime/serve/endpoints.h"
#include "tp/version.h"

#include <chrono>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/chrono.h>

namespace tp::endpoints {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of_state(ServerState state) {
  switch (state) {
    case ServerState::loading:
      return "loading";
    case ServerState::ready:
      return "ok";
    case ServerState::draining:
      return "draining";
    case ServerState::failed:
      return "failed";
  }
  return "";
}

// The age of the current step; 0 between steps.
double seconds_in_step(const Service& service) {
  const auto began = service.step_began.load();
  if (began == Service::Clock::time_point{}) return 0.0;
  return rounded(std::chrono::duration<double>(Service::Clock::now() - began).count());
}

Json store_object(const StoreStatus& store) {
  return {{"prompts", store.restored_prompts},
          {"tokens", store.restored_tokens},
          {"read_bytes", store.read_bytes},
          {"read_seconds", rounded(store.read_seconds)},
          {"written_bytes", store.written_bytes},
          {"write_seconds", rounded(store.write_seconds)},
          {"removed_bytes", store.removed_bytes},
          {"dropped", store.dropped_runs},
          {"damaged_files", store.damaged_files},
          {"waiting", store.waiting_runs},
          {"loading", store.loading},
          {"writes", store.writes}};
}

Json speculation_object(const SpeculationCounts& counts) {
  Json places = Json::array();
  for (std::size_t i = 0; i < kMaxDraftTokens && counts.drafted[i] > 0; ++i)
    places.push_back({{"drafted", counts.drafted[i]}, {"accepted", counts.accepted[i]}});
  return {{"drafts", counts.drafts},
          {"drafted_tokens", counts.drafted_tokens()},
          {"accepted_tokens", counts.accepted_tokens()},
          {"by_position", std::move(places)}};
}

Json rank_object(const RankReport& report, std::size_t rank) {
  return {{"rank", rank},
          {"host", report.host},
          {"threads", report.threads},
          {"compute_seconds", rounded(report.time.compute)},
          {"collective_seconds", rounded(report.time.collectives)},
          {"waiting_seconds", rounded(report.time.waiting)},
          {"sampling_seconds", rounded(report.time.sampling)},
          {"control_seconds", rounded(report.time.control)},
          {"weight_bytes", report.weight_bytes},
          {"cache_bytes", report.cache_bytes},
          {"peak_resident_bytes", report.peak_resident_bytes}};
}

}  // namespace

// OpenAI's and Anthropic's members.
Json model_card(const Service& service, const std::string& name) {
  const EngineInfo& info = service.model.engine->info();
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(Service::Clock::now() - service.started);
  const std::time_t created = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() - age);
  const bool is_adapter = !service.adapter_of(name).value_or("").empty();
  return {{"id", name},
          {"object", "model"},
          {"created", created},
          {"owned_by", "tp-infer"},
          {"type", "model"},
          {"display_name", name},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(created))},
          {"max_input_tokens", info.options.max_length},
          {"root", service.model_name()},
          {"parent", is_adapter ? Json(service.model_name()) : Json()},
          {"max_model_len", info.options.max_length},
          {"capabilities",
           {{"completion", info.options.max_length > 0}, {"chat", service.model.chat.has_value()}}},
          {"meta",
           {{"architecture", info.config.architecture},
            {"n_params", info.parameters},
            {"n_vocab", info.config.vocab_size},
            {"n_embd", info.config.hidden_size},
            {"weights", std::string(name_of(info.weights))}}}};
}

void models(Service& service, const Exchange& exchange) {
  Json list = Json::array();
  std::vector<std::string> names = service.options.model_names;
  for (const AdapterInfo& adapter : service.model.engine->info().adapters) names.push_back(adapter.name);
  for (const std::string& name : names) list.push_back(model_card(service, name));
  service.respond_json(*exchange, 200,
                       {{"object", "list"},
                        {"data", std::move(list)},
                        {"has_more", false},
                        {"first_id", names.front()},
                        {"last_id", names.back()}});
}

void model(Service& service, const Exchange& exchange) {
  const std::string_view path = exchange->request().path();
  constexpr std::string_view kBefore = "/models/";
  const std::string name = percent_decoded(path.substr(path.find(kBefore) + kBefore.size()));
  service.adapter_of(name);  // throws if there is no such model
  service.respond_json(*exchange, 200, model_card(service, name));
}

void health(Service& service, const Exchange& exchange) {
  const ServerState state = service.state;
  if (state == ServerState::ready) {
    Json body = {{"status", "ok"}};
    if (service.is_of_gateway(exchange->request())) body["step_seconds"] = seconds_in_step(service);
    return service.respond_json(*exchange, 200, body);
  }
  static constexpr const char* kTexts[] = {"Loading model", "", "Draining: no new requests are taken",
                                           "A rank was lost"};
  throw ApiException(
      {.status = 503, .message = kTexts[static_cast<std::size_t>(state)], .code = name_of_state(state)});
}

void version(Service& service, const Exchange& exchange) {
  service.respond_json(*exchange, 200, {{"version", kVersion}, {"name", "tp-infer"}});
}

void metrics(Service& service, const Exchange& exchange) {
  const ServerState state = service.state;
  const LeaderStatus load = service.is_open ? service.model.engine->status() : LeaderStatus{};
  HttpResponse response{.body = service.metrics.text(service.model_name(), load, state == ServerState::ready),
                        .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  response.headers = service.headers_for(exchange->request());
  exchange->respond(std::move(response));
}

void status(Service& service, const Exchange& exchange) {
  const ServerState state = service.state;
  const auto uptime = std::chrono::duration<double>(Service::Clock::now() - service.started).count();
  Json body = {{"model", service.model_name()},
               {"version", kVersion},
               {"uptime_seconds", rounded(uptime)},
               {"ready", state == ServerState::ready},
               {"draining", state == ServerState::draining},
               {"state", name_of_state(state)}};
  if (service.is_open) {
    const LeaderStatus load = service.model.engine->status();
    const EngineInfo& info = service.model.engine->info();
    const std::size_t blocks = load.used_blocks + load.free_blocks;
    body["requests"] = {
        {"running", load.running}, {"waiting", load.queued}, {"finished", service.metrics.ended()}};
    body["tokens"] = {{"prompt_total", service.metrics.prompt_tokens()},
                      {"generated_total", service.metrics.generated_tokens()},
                      {"prompt_per_second", rounded(service.metrics.prompt_rate())},
                      {"generated_per_second", rounded(service.metrics.generation_rate())}};
    body["cache"] = {{"used_tokens", blocks == 0 ? 0 : load.used_blocks * info.options.cache_tokens / blocks},
                     {"capacity_tokens", info.options.cache_tokens},
                     {"prefix_queries", load.prefix_queries},
                     {"prefix_hits", load.prefix_hits}};
    if (load.states != 0) {
      body["cache"].update(
          {{"states", load.states}, {"snapshots", load.snapshots}, {"snapshot_hits", load.snapshot_hits}});
    }
    if (load.store.is_open) body["kv_store"] = store_object(load.store);
    if (load.speculation.drafts > 0) body["speculation"] = speculation_object(load.speculation);
    body["step"] = {{"tokens", load.last_step_tokens}, {"seconds", rounded(load.last_step_seconds)}};
    Json ranks = Json::array();
    for (const RankReport& report : service.metrics.reports())
      ranks.push_back(rank_object(report, ranks.size()));
    body["ranks"] = std::move(ranks);
  }
  service.respond_json(*exchange, 200, body);
}

// Anybody may use a server without keys, but nobody may remove the prompts of others there.
void clear_store(Service& service, const Exchange& exchange) {
  if (!service.access.has_keys()) {
    throw ApiException({.status = 403,
                        .message = "expected a server with API keys, found none; start it with --api-key, or "
                                   "remove stored prompts with `tp-infer kv-store DIR --prune-model NAME`"});
  }
  if (!service.model.engine->clear_store()) {
    throw ApiException({.status = 404,
                        .message = "this server stores no prompts; start it with --kv-store DIR",
                        .code = "not_found"});
  }
  service.respond_json(*exchange, 202, {{"object", "kv_store"}, {"deleted", true}});
}

void reload_keys(Service& service, const Exchange& exchange) {
  if (!service.is_of_gateway(exchange->request()))
    throw ApiException({.status = 404, .message = "only the gateway uses this path", .code = "not_found"});
  const std::optional<std::size_t> count = service.reload_keys();
  if (!count) return exchange->respond({.status = 204, .content_type = ""});
  service.respond_json(*exchange, 200, {{"keys", *count}});
}

}  // namespace tp::endpoints
