// Handlers of the server's paths. They run on the pool's threads, or on the server's thread if they are about
// the server. They may throw; the router reports errors.
#pragma once

#include "runtime/api/answer_format.h"
#include "runtime/http/http_exchange.h"
#include "runtime/serve/service.h"

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp::endpoints {

using Exchange = std::shared_ptr<HttpExchange>;

// Takes the request's body, once. Throws RequestError if the body is not a JSON object, or is nested too
// deeply.
nlohmann::ordered_json body_of(const Exchange& exchange);

void chat_completions(Service& service, const Exchange& exchange);
void completions(Service& service, const Exchange& exchange);
void responses(Service& service, const Exchange& exchange);
void messages(Service& service, const Exchange& exchange);
void count_message_tokens(Service& service, const Exchange& exchange);
void embeddings(Service& service, const Exchange& exchange);
void rerank(Service& service, const Exchange& exchange);
void score(Service& service, const Exchange& exchange);

void models(Service& service, const Exchange& exchange);
void model(Service& service, const Exchange& exchange);
void tokenize(Service& service, const Exchange& exchange);
void detokenize(Service& service, const Exchange& exchange);
void tokenizer_info(Service& service, const Exchange& exchange);
void apply_template(Service& service, const Exchange& exchange);

// The members of a model in a list of models.
nlohmann::ordered_json model_card(const Service& service, const std::string& name);

void page_file(Service& service, const Exchange& exchange);
void health(Service& service, const Exchange& exchange);
void version(Service& service, const Exchange& exchange);
void metrics(Service& service, const Exchange& exchange);
void status(Service& service, const Exchange& exchange);
void clear_store(Service& service, const Exchange& exchange);
// Only for the gateway: reads the file of keys again.
void reload_keys(Service& service, const Exchange& exchange);

}  // namespace tp::endpoints
