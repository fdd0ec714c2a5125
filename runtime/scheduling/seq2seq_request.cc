#include "runtime/scheduling/seq2seq_request.h"

#include "tp/internal/require.h"

namespace tp {

void begin_decoder(const GenerationDefaults& defaults, const std::string& model, Request& request) {
  const bool reads_input_only =
      request.max_tokens == 0 && (request.prompt_hidden || request.asks_for_state());
  if (reads_input_only || !request.decoder_prompt.empty()) return;
  require<RequestError>(
      defaults.decoder_start.has_value(),
      "cannot begin the decoder's text: expected decoder_start_token_id in config.json or "
      "generation_config.json of {}, found neither; give the decoder's first tokens with the "
      "request",
      model);
  request.decoder_prompt = {*defaults.decoder_start};
}

EncodedInput lay_out_input(std::size_t block_size, Request& request) {
  std::vector<TokenId>& prompt = request.prompt;
  const std::size_t blocks = (prompt.size() + block_size - 1) / block_size;
  const EncodedInput input{.tokens = prompt.size(), .positions = blocks * block_size, .blocks = blocks};
  request.cache_salt.push_back('\0');
  request.cache_salt.append(reinterpret_cast<const char*>(prompt.data()), prompt.size() * sizeof(TokenId));
  prompt.resize(input.positions, prompt.back());
  prompt.insert(prompt.end(), request.decoder_prompt.begin(), request.decoder_prompt.end());
  for (std::size_t& position : request.candidates_at) position += input.positions;
  return input;
}

}  // namespace tp
