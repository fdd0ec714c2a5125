// A tokenizer.json of any bytes is rejected, or encodes a text and decodes any ids.
#include "model/tokenizer/tokenizer_json.h"
#include "tests/fuzz/use_tokenizer.h"

#include <cstdint>

#include <nlohmann/json.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tp;
  const nlohmann::json document = nlohmann::json::parse(data, data + size, nullptr, false);
  if (document.is_discarded()) return 0;
  try {
    use_tokenizer(Tokenizer(parts_from_json(JsonNode(document, "tokenizer.json"))));
  } catch (const CheckpointError&) {
    // Damaged files must be rejected.
  } catch (const RequestError&) {
    // Patterns that explode must be rejected.
  }
  return 0;
}
