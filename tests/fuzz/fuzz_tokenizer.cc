// A tokenizer.json of any bytes is rejected, or encodes a text and decodes any ids.
#include "model/tokenizer/text/utf8.h"
#include "model/tokenizer/tokenizer_json.h"
#include "tp/error.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

void use(const Tokenizer& tokenizer) {
  const std::vector<TokenId> ids =
      tokenizer.encode("Ab  ab's 123 \xC3\xA9\xE2\x96\x81\xF0\x9F\xA6\x99</s>\n\n\xFF.", AddSpecial::yes);
  tokenizer.decode(ids, SkipSpecial::no);
  TokenDecoder decoder = tokenizer.decoder();
  std::string text;
  for (std::size_t id = 0; id < std::min<std::size_t>(tokenizer.vocab_size(), 300); ++id) {
    try {
      tokenizer.push(static_cast<TokenId>(id), SkipSpecial::yes, decoder, text);
    } catch (const RequestError&) {
      // The token does not exist.
    }
  }
  decoder.flush(text);
  decoder.finish(text);
  if (!utf8::is_valid(text)) std::abort();
}

}  // namespace
}  // namespace tp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tp;
  const nlohmann::json document = nlohmann::json::parse(data, data + size, nullptr, false);
  if (document.is_discarded()) return 0;
  try {
    use(Tokenizer(parts_from_json(JsonNode(document, "tokenizer.json"))));
  } catch (const CheckpointError&) {
    // Damaged files must be rejected.
  } catch (const RequestError&) {
    // Patterns that explode must be rejected.
  }
  return 0;
}
