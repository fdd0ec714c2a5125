// The gateway's own reports about its models.
#pragma once

#include "runtime/gateway/models.h"

#include <string>

#include <nlohmann/json.hpp>

namespace tp {

// A model as a member of /v1/models, with the members of OpenAI's, Anthropic's and llama.cpp's lists. What a
// server says about itself is known once a job has been ready.
nlohmann::ordered_json model_report(const GatewayModel& model);
// The model by one of its names. An adapter is a model of its own, whose `parent` is the model.
nlohmann::ordered_json model_report(const GatewayModel& model, const std::string& name);
// The body of /v1/models.
nlohmann::ordered_json models_report(const Models& models);
// The gateway's metrics in the text format of Prometheus. A model without a name has no label.
std::string metrics_report(const Models& models);
// The names of models and adapters, for messages.
std::string names_of(const Models& models);

}  // namespace tp
