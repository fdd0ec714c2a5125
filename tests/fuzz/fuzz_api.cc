// Bodies of requests to the server: the first byte chooses the API. Seeds: any JSON of a client.
#include "runtime/api/api_error.h"
#include "runtime/api/request_fields.h"
#include "tests/fuzz/read_api_call.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    const tp::ApiCall call = tp::read_api_call(data[0], {reinterpret_cast<const char*>(data + 1), size - 1});
    for (const tp::ApiRequest& prompt : call.prompts) {
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
