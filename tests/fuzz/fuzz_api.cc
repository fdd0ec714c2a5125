// Bodies of requests to the server: the first byte chooses the API. Seeds: any JSON of a client.
#include "runtime/api/api_call.h"
#include "runtime/api/api_error.h"
#include "runtime/api/request_fields.h"
#include "tp/error.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using tp::ApiRequest;

tp::ApiCall read(std::uint8_t api, std::string_view text) {
  const nlohmann::ordered_json body = tp::parse_body(text);
  switch ((api - '0') % 4) {
    case 0:
      return tp::read_openai_call(body, ApiRequest::Form::chat_completion);
    case 1:
      return tp::read_openai_call(body, ApiRequest::Form::text_completion);
    case 2:
      return tp::read_responses_call(body);
    default:
      return tp::read_messages_call(body);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    const tp::ApiCall call = read(data[0], {reinterpret_cast<const char*>(data + 1), size - 1});
    for (const ApiRequest& prompt : call.prompts) {
      tp::Request request;
      tp::set_fields(prompt.settings, request);
      request.prompt = {1};
      request.validate();
    }
  } catch (const std::exception& error) {
    // A wrong request is the client's fault. Other errors would be the server's.
    if (tp::api_error_of(error).status >= 500) std::abort();
  }
  return 0;
}
