#include "runtime/engine/request_check.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>

namespace tp {
namespace {

void check_ids(std::span<const TokenId> ids, std::size_t vocab_size, std::string_view what,
               std::string_view question) {
  for (const TokenId id : ids) {
    require<RequestError>(id >= 0 && static_cast<std::size_t>(id) < vocab_size,
                          "{} has token id {}, but the vocabulary has the ids 0 to {}; {}", what, id,
                          vocab_size - 1, question);
  }
}

// Checks the prompt, and its length with the longest continuation.
void check_length(const Request& request, const LeaderOptions& options) {
  const std::size_t prompt = request.prompt.size();
  if (request.max_tokens == 0) {
    require<TooLongError>(prompt <= options.max_length,
                          "prompt has {} tokens but a sequence has at most {} (max_position_embeddings, or "
                          "`max_length`); shorten the prompt",
                          prompt, options.max_length);
  } else {
    require<TooLongError>(
        prompt < options.max_length,
        "prompt has {} tokens but a sequence has at most {} (max_position_embeddings, or `max_length`), one "
        "of them generated; shorten the prompt",
        prompt, options.max_length);
  }
  const std::size_t indivisible = options.limits.indivisible_tokens();
  require<TooLongError>(
      request.attention == AttentionMask::causal || prompt <= indivisible,
      "prompt has {} tokens but with bidirectional attention, which computes it in one step, at "
      "most {}; raise `prefill_chunk`, or lower `max_sequences`",
      prompt, indivisible);
  check_ids(request.prompt, options.vocab_size, "prompt", "is it this model's prompt?");
  const std::size_t longest =
      std::min<std::size_t>(options.max_length, prompt + static_cast<std::size_t>(request.max_tokens));
  require<TooLongError>(
      options.cache.blocks_for(longest) <= options.cache_blocks,
      "prompt and continuation have up to {} tokens but the cache has room for {}; lower `max_tokens` or "
      "raise `cache_tokens`",
      longest, options.cache.tokens_in(options.cache_blocks, 1, longest));
}

}  // namespace

void check_request(const Request& request, const LeaderOptions& options, bool has_tokenizer) {
  request.validate();
  check_length(request, options);
  constexpr std::string_view kMeant = "is it meant for this model?";
  for (const LogitBias& bias : request.sampling.logit_bias)
    check_ids({&bias.id, 1}, options.vocab_size, "logit_bias", kMeant);
  for (const std::vector<TokenId>& word : request.bad_words_ids)
    check_ids(word, options.vocab_size, "bad_words_ids", kMeant);
  require<RequestError>(request.bad_words.empty() || has_tokenizer,
                        "bad_words need a tokenizer, but there is none in {}", options.model);
  require<RequestError>(request.stop.empty() || has_tokenizer,
                        "stop texts need a tokenizer, but there is none in {}", options.model);
}

}  // namespace tp
