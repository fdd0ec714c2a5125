// The endpoints that generate text.
#include "model/files/parse_number.h"
#include "runtime/api/api_call.h"
#include "runtime/api/record.h"
#include "runtime/serve/endpoints.h"
#include "runtime/serve/generation.h"
#include "tp/internal/require.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tp::endpoints {

nlohmann::ordered_json body_of(const Exchange& exchange) { return parse_body(exchange->take_body()); }

namespace {

// The body of a call, with the record that precedes it if the call comes from the gateway.
struct GatewayBody {
  GatewayBody(const Service& service, const Exchange& exchange) {
    std::string text = exchange->take_body();
    if (service.is_of_gateway(exchange->request())) {
      const std::string_view size = exchange->request().header(gateway_header::kRecordBytes);
      const std::size_t bytes = parse_number<std::size_t>(size).value_or(std::string::npos);
      require<RequestError>(bytes <= text.size(), "`tp-record-bytes`: expected at most {}, found {}",
                            text.size(), size);
      record = parse_record(std::string_view(text).substr(0, bytes));
      text.erase(0, bytes);
    }
    json = parse_body(text);
  }

  nlohmann::ordered_json json{};
  std::optional<Record> record{};
};

}  // namespace

void chat_completions(Service& service, const Exchange& exchange) {
  GatewayBody body(service, exchange);
  Generation::start(service, exchange, make_openai_format(*service.model.engine),
                    read_openai_call(std::move(body.json), ApiRequest::Form::chat_completion),
                    std::move(body.record));
}

void completions(Service& service, const Exchange& exchange) {
  GatewayBody body(service, exchange);
  Generation::start(service, exchange, make_openai_format(*service.model.engine),
                    read_openai_call(std::move(body.json), ApiRequest::Form::text_completion),
                    std::move(body.record));
}

void responses(Service& service, const Exchange& exchange) {
  GatewayBody body(service, exchange);
  Generation::start(service, exchange, make_responses_format(service.model.engine),
                    read_responses_call(body.json), std::move(body.record));
}

void messages(Service& service, const Exchange& exchange) {
  GatewayBody body(service, exchange);
  Generation::start(service, exchange, make_messages_format(), read_messages_call(body.json),
                    std::move(body.record));
}

}  // namespace tp::endpoints
