#include "runtime/gateway/model_reports.h"

#include "runtime/http/http_message.h"

#include <chrono>
#include <ctime>
#include <string_view>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp {
namespace {

using OrderedJson = nlohmann::ordered_json;

// llama.cpp's word for the state of a model.
const char* llama_cpp_status(JobState state) {
  switch (state) {
    case JobState::ready:
      return "loaded";
    case JobState::starting:
    case JobState::restarting:
      return "loading";
    default:
      return "unloaded";
  }
}

class MetricsText {
 public:
  explicit MetricsText(const Models& models) : models_(models) {}

  // A metric with a value for each model.
  template <class Value>
  void add(std::string_view name, std::string_view type, std::string_view help, Value value) {
    text_ +=
        fmt::format("# HELP tpinfer:gateway_{0} {1}\n# TYPE tpinfer:gateway_{0} {2}\n", name, help, type);
    for (const auto& model : models_.all()) {
      const std::string label =
          model->entry.name.empty() ? "" : fmt::format("{{model=\"{}\"}}", label_text(model->entry.name));
      text_ += fmt::format("tpinfer:gateway_{}{} {}\n", name, label, value(*model));
    }
  }
  std::string take() { return std::move(text_); }

 private:
  const Models& models_;
  std::string text_{};
};

}  // namespace

OrderedJson model_report(const GatewayModel& model) {
  static const std::time_t kStarted = std::time(nullptr);
  const std::string& name = model.entry.name;
  OrderedJson report = OrderedJson::parse(model.supervisor->announcement().card, nullptr, false);
  if (!report.is_object()) {
    report = {{"id", name},
              {"object", "model"},
              {"created", kStarted},
              {"owned_by", "tp-infer"},
              {"type", "model"},
              {"display_name", name},
              {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(kStarted))}};
  }
  const JobState state = model.supervisor->state();
  report["id"] = report["display_name"] = name;
  report["aliases"] = model.entry.aliases;
  report["state"] = name_of(state);
  report["status"] = {{"value", llama_cpp_status(state)}};
  return report;
}

OrderedJson model_report(const GatewayModel& model, const std::string& name) {
  OrderedJson report = model_report(model);
  if (!model.entry.has_adapter(name)) return report;
  report["id"] = report["display_name"] = name;
  report["parent"] = model.entry.name;
  report["aliases"] = OrderedJson::array();
  return report;
}

OrderedJson models_report(const Models& models) {
  OrderedJson list = OrderedJson::array();
  for (const auto& model : models.all()) {
    list.push_back(model_report(*model));
    for (const std::string& adapter : model->entry.adapters) list.push_back(model_report(*model, adapter));
  }
  const std::string first = list.front().at("id");
  const std::string last = list.back().at("id");
  return {{"object", "list"},
          {"data", std::move(list)},
          {"has_more", false},
          {"first_id", first},
          {"last_id", last}};
}

std::string names_of(const Models& models) {
  std::vector<std::string> names;
  for (const auto& model : models.all()) {
    names.push_back(model->entry.name);
    names.insert(names.end(), model->entry.adapters.begin(), model->entry.adapters.end());
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string metrics_report(const Models& models) {
  MetricsText text(models);
  text.add("ready", "gauge", "Whether a job is ready.",
           [](const GatewayModel& model) { return model.supervisor->is_ready() ? 1 : 0; });
  text.add("starts_total", "counter", "Jobs that were started.",
           [](const GatewayModel& model) { return model.supervisor->starts(); });
  text.add("restarts_total", "counter", "Jobs that were ready and then lost.",
           [](const GatewayModel& model) { return model.supervisor->restarts(); });
  text.add("resumed_answers_total", "counter", "Answers continued after tokens of an earlier job.",
           [](const GatewayModel& model) { return model.dispatcher->resumed(); });
  text.add("lost_seconds_total", "counter",
           "Seconds between a loss and the next ready job or the stop of the model.",
           [](const GatewayModel& model) { return model.supervisor->lost_seconds(); });
  text.add("kept_requests", "gauge", "Requests that wait or are in progress.",
           [](const GatewayModel& model) { return model.dispatcher->kept_requests(); });
  text.add("waiting_requests", "gauge", "Requests that wait for a job.",
           [](const GatewayModel& model) { return model.dispatcher->waiting(); });
  text.add("kept_bytes", "gauge", "Bytes of kept requests and their records.",
           [](const GatewayModel& model) { return model.dispatcher->kept_bytes(); });
  return text.take() +
         fmt::format(
             "# HELP tpinfer:gateway_switches_total Jobs that were drained for another model of their "
             "group.\n# TYPE tpinfer:gateway_switches_total counter\ntpinfer:gateway_switches_total {}\n",
             models.switches());
}

}  // namespace tp
