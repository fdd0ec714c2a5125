// The endpoints that generate text.
#include "runtime/api/api_call.h"
#include "runtime/serve/endpoints.h"
#include "runtime/serve/generation.h"

namespace tp::endpoints {

nlohmann::ordered_json body_of(const Exchange& exchange) { return parse_body(exchange->take_body()); }

void chat_completions(Service& service, const Exchange& exchange) {
  Generation::start(service, exchange, make_openai_format(*service.model.engine),
                    read_openai_call(body_of(exchange), ApiRequest::Form::chat_completion));
}

void completions(Service& service, const Exchange& exchange) {
  Generation::start(service, exchange, make_openai_format(*service.model.engine),
                    read_openai_call(body_of(exchange), ApiRequest::Form::text_completion));
}

void responses(Service& service, const Exchange& exchange) {
  Generation::start(service, exchange, make_responses_format(), read_responses_call(body_of(exchange)));
}

void messages(Service& service, const Exchange& exchange) {
  Generation::start(service, exchange, make_messages_format(), read_messages_call(body_of(exchange)));
}

}  // namespace tp::endpoints
