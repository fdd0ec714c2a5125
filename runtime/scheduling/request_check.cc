#include "runtime/scheduling/request_check.h"

#include "tp/internal/prompt_too_long.h"
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

// Checks that this kind of model can do what the request asks for.
void check_task(const Request& request, const LeaderOptions& options) {
  const auto check = [&](bool asked, Task task, std::string_view what) {
    require<RequestError>(!asked || does(options.kind, task), "cannot {}: {} is {}; use a model that can",
                          what, options.model(), describe(options.kind));
  };
  check(request.max_tokens > 0, Task::generate, "generate text");
  check(request.score_from.has_value(), Task::score, "score a text");
  check(request.asks_for_state(), Task::embed, "turn a text into a vector");
  require<RequestError>(
      !request.unmasking || options.kind == ModelKind::diffusion,
      "cannot unmask tokens: `steps`, `block_length`, `unmask`, `threshold` and `unmask_cache` are for "
      "diffusion language models, and {} is {}; leave them out",
      options.model(), describe(options.kind));
  const bool has_logits = does(options.kind, Task::logits) && options.kind != ModelKind::classifier;
  require<RequestError>(has_logits || (!request.prompt_logits && request.candidates_at.empty()),
                        "cannot give logits of tokens: {} is {}, which has none; ask for its hidden states",
                        options.model(), describe(options.kind));
}

void check_marks(const Request& request, const LeaderOptions& options) {
  for (const std::uint8_t type : request.token_types) {
    require<RequestError>(
        type < std::max<std::size_t>(options.token_types, 1),
        "token_type_ids has a type {}, but the model has {} (type_vocab_size); is it this "
        "model's input?",
        type, options.token_types == 0 ? "none" : fmt::format("0 to {}", options.token_types - 1));
  }
  const bool any = std::ranges::find(request.global_tokens, 1) != request.global_tokens.end();
  require<RequestError>(
      !any || options.has_global_tokens,
      "global_attention_mask has global tokens, but this model has no windows that leave any "
      "out; leave the field out");
}

// Checks the prompt's attention mask and tokens, and its length, both alone and with the longest
// continuation.
void check_length(const Request& request, const LeaderOptions& options) {
  const std::size_t prompt = request.prompt.size();
  if (request.max_tokens == 0) {
    require_room(prompt, options.engine.max_length,
                 "prompt has {} tokens but a sequence has at most {} (max_position_embeddings, or "
                 "`max_length`); shorten the prompt",
                 prompt, options.engine.max_length);
  } else {
    // A prompt of the maximum length is too long by the generated token.
    require_room(prompt, prompt == options.engine.max_length ? prompt - 1 : options.engine.max_length,
                 "prompt has {} tokens but a sequence has at most {} (max_position_embeddings, or "
                 "`max_length`), one of them generated; shorten the prompt",
                 prompt, options.engine.max_length);
  }
  require<RequestError>(!request.bidirectional || options.cache.states == 0,
                        "bidirectional attention was asked for, but {} has recurrent layers, in which a "
                        "token sees only earlier tokens; use causal attention",
                        options.model());
  require<RequestError>(!request.bidirectional || !options.recomputes,
                        "bidirectional attention was asked for, but {} has layers in which a token never "
                        "sees later tokens; use causal attention",
                        options.model());
  require<RequestError>(!request.bidirectional || !options.has_indexers,
                        "bidirectional attention was asked for, but {} has indexers, which choose among "
                        "earlier tokens; use causal attention",
                        options.model());
  const std::size_t indivisible = options.indivisible_tokens();
  require<TooLongError>(
      !request.bidirectional || prompt <= indivisible,
      "prompt has {} tokens, but bidirectional attention computes it in one step, which has at most {}; "
      "raise `prefill_chunk`{}",
      prompt, indivisible, options.engine.max_sequences > 1 ? ", or lower `max_sequences`" : "");
  check_ids(request.prompt, options.vocab_size, "prompt", "is it this model's prompt?");
  const std::size_t longest =
      std::min<std::size_t>(options.engine.max_length, prompt + static_cast<std::size_t>(request.max_tokens));
  if (options.cache.blocks_for(longest) <= options.cache_blocks) return;
  const std::size_t room = options.cache.tokens_in(options.cache_blocks, 1, longest);
  throw PromptTooLongError(
      fmt::format("prompt and continuation have up to {} tokens but the cache has room for {}; lower "
                  "`max_tokens` or raise `cache_tokens`",
                  longest, room),
      longest, room);
}

// Like check_length, but for an encoder-decoder, whose input and text have separate maximum lengths.
void check_seq2seq_length(const Request& request, const LeaderOptions& options) {
  const std::size_t prompt = request.prompt.size();
  const std::size_t begun = request.decoder_prompt.size();
  require<TooLongError>(
      prompt <= options.engine.max_length,
      "the input has {} tokens but the encoder reads at most {} (max_position_embeddings, or "
      "`max_length`); shorten it",
      prompt, options.engine.max_length);
  require<TooLongError>(begun + (request.max_tokens > 0 ? 1 : 0) <= options.engine.max_length,
                        "decoder_prompt has {} tokens but a text has at most {} (max_position_embeddings, or "
                        "`max_length`), generated ones included; shorten it",
                        begun, options.engine.max_length);
  require<RequestError>(!request.bidirectional,
                        "bidirectional attention was asked for, but {} is {}, whose input has it anyway and "
                        "whose text cannot; leave it out",
                        options.model(), describe(options.kind));
  check_ids(request.prompt, options.vocab_size, "prompt", "is it this model's prompt?");
  check_ids(request.decoder_prompt, options.vocab_size, "decoder_prompt", "is it this model's prompt?");
  const std::size_t longest =
      std::min<std::size_t>(options.engine.max_length, begun + static_cast<std::size_t>(request.max_tokens));
  const std::size_t blocks = options.cache.blocks_for(prompt) + options.cache.blocks_for(longest);
  require<TooLongError>(
      blocks <= options.cache_blocks,
      "input and text have up to {} tokens but the cache has room for {} blocks of {}; lower "
      "`max_tokens` or raise `cache_tokens`",
      prompt + longest, options.cache_blocks, options.cache.block_size);
}

}  // namespace

void check_request(const Request& request, const LeaderOptions& options, bool has_tokenizer) {
  // A refusal by kind comes first, because a model without causal attention makes every request
  // bidirectional.
  check_task(request, options);
  request.validate();
  check_marks(request, options);
  const bool is_seq2seq = options.kind == ModelKind::seq2seq;
  require<RequestError>(
      is_seq2seq || request.decoder_prompt.empty(),
      "a prompt for the decoder was given, expected none, as {} is {}; give it as the prompt",
      options.model(), describe(options.kind));
  (is_seq2seq ? check_seq2seq_length : check_length)(request, options);
  constexpr std::string_view kMeant = "is it meant for this model?";
  for (const LogitBias& bias : request.sampling.logit_bias)
    check_ids({&bias.id, 1}, options.vocab_size, "logit_bias", kMeant);
  if (request.forced_first)
    check_ids({&*request.forced_first, 1}, options.vocab_size, "forced_first", kMeant);
  for (const std::vector<TokenId>& word : request.bad_words_ids)
    check_ids(word, options.vocab_size, "bad_words_ids", kMeant);
  require<RequestError>(request.bad_words.empty() || has_tokenizer,
                        "bad_words need a tokenizer, but there is none in {}", options.model());
  require<RequestError>(!request.constraint || has_tokenizer,
                        "a constraint needs a tokenizer, but there is none in {}", options.model());
  require<RequestError>(!request.constraint || !request.allowed_tokens,
                        "a request has either a constraint or allowed_tokens, found both; leave one out");
  require<RequestError>(request.stop.empty() || has_tokenizer,
                        "stop texts need a tokenizer, but there is none in {}", options.model());
  require<RequestError>(!request.thinking || has_tokenizer,
                        "a limit of thinking needs a tokenizer, but there is none in {}", options.model());
  require<RequestError>(request.constraint || request.constraint_frame.empty(),
                        "constraint_frame surrounds the text of a constraint, but there is none; leave it "
                        "out");
  require<RequestError>(
      !request.thinking || !request.constraint || !request.constraint_frame.empty(),
      "a constraint and a limit of thinking were given, but the text of the constraint begins at once; "
      "describe the thinking before it in constraint_frame, or leave one out");
  require<RequestError>(request.generated.size() <= static_cast<std::size_t>(request.n),
                        "`generated` has the tokens of {} continuations, but the request has {}",
                        request.generated.size(), request.n);
  require<RequestError>(request.generated.empty() || !request.asks_about_prompt(),
                        "`generated` was given to a request that asks about its prompt; leave one out");
  for (const std::vector<TokenId>& tokens : request.generated)
    check_ids(tokens, options.vocab_size, "generated", "are they this model's tokens?");
  if (request.thinking) check_ids(request.thinking->end_ids, options.vocab_size, "thinking.end_ids", kMeant);
}

}  // namespace tp
