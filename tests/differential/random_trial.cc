#include "tests/differential/random_trial.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp::differential {
namespace {

using reference::Random;

constexpr std::size_t kLongestPrompt = 48;
constexpr std::size_t kLongestAnswer = 24;
constexpr std::size_t kLongest = kLongestPrompt + kLongestAnswer;

bool one_in(Random& random, std::size_t count) { return random.integer(0, count - 1) == 0; }

float fraction(Random& random) { return (random.number() + 1.0F) / 2.0F; }  // [0, 1)

TokenId random_token(Random& random, std::size_t vocab_size) {
  return static_cast<TokenId>(random.integer(0, vocab_size - 1));
}

std::vector<TokenId> random_tokens(Random& random, std::size_t count, std::size_t vocab_size) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = random_token(random, vocab_size);
  return tokens;
}

// Prompts have one of three beginnings, so the prefix cache gets hits.
std::vector<TokenId> random_prompt(Random& random, std::size_t vocab_size) {
  const std::size_t size = random.integer(1, kLongestPrompt);
  std::vector<TokenId> prompt = random_tokens(random, size, vocab_size);
  const std::size_t common = one_in(random, 3) ? 0 : random.integer(0, size);
  const std::size_t beginning = random.integer(1, 3);
  for (std::size_t i = 0; i < common; ++i)
    prompt[i] = static_cast<TokenId>((i * 31 * beginning + beginning) % vocab_size);
  // Some prompts repeat themselves, so drafts have something to find.
  const std::size_t period = one_in(random, 2) ? random.integer(1, 8) : size;
  for (std::size_t i = period; i < size; ++i) prompt[i] = prompt[i - period];
  return prompt;
}

// Makes few tokens likely, so draft tokens are correct more often.
void prefer_few_tokens(Random& random, std::size_t vocab_size, SamplingParams& sampling) {
  for (const TokenId id : random_tokens(random, random.integer(1, 4), vocab_size))
    sampling.logit_bias.push_back({id, 9.0F});
}

SamplingParams random_sampling(Random& random, std::size_t vocab_size) {
  SamplingParams sampling;
  sampling.seed = random.integer(0, 1U << 20);
  sampling.temperature = one_in(random, 3) ? 0.0F : 0.2F + 1.5F * fraction(random);
  if (one_in(random, 3)) sampling.top_k = static_cast<int>(random.integer(1, vocab_size + 10));
  if (one_in(random, 2)) sampling.top_p = 0.05F + 0.95F * fraction(random);
  if (one_in(random, 4)) sampling.min_p = 0.3F * fraction(random);
  if (one_in(random, 4)) sampling.repetition_penalty = 0.7F + fraction(random);
  if (one_in(random, 5)) sampling.presence_penalty = random.number();
  if (one_in(random, 5)) sampling.frequency_penalty = random.number();
  if (one_in(random, 3)) sampling.logprobs = static_cast<int>(random.integer(0, 5));
  if (one_in(random, 5)) {
    for (const TokenId id : random_tokens(random, 3, vocab_size))
      sampling.logit_bias.push_back({id, 4.0F * random.number()});
  } else if (one_in(random, 4)) {
    prefer_few_tokens(random, vocab_size, sampling);
  }
  return sampling;
}

Request random_request(Random& random, std::size_t vocab_size) {
  Request request;
  request.prompt = random_prompt(random, vocab_size);
  request.sampling = random_sampling(random, vocab_size);
  request.max_tokens = static_cast<int>(random.integer(1, kLongestAnswer));
  request.ignore_eos = random.coin();
  if (one_in(random, 4)) request.n = static_cast<int>(random.integer(2, 4));
  if (one_in(random, 5)) request.min_tokens = static_cast<int>(random.integer(0, 5));
  request.min_tokens = std::min(request.min_tokens, request.max_tokens);
  if (one_in(random, 4)) request.stop_token_ids = random_tokens(random, 4, vocab_size);
  if (one_in(random, 5)) request.bad_words_ids = {random_tokens(random, 1, vocab_size)};
  if (one_in(random, 6) && request.prompt.size() > 1)
    request.score_from = random.integer(1, request.prompt.size() - 1);
  if (one_in(random, 6)) request.speculate = false;
  if (one_in(random, 3)) request.priority = static_cast<int>(random.integer(0, 2)) - 1;
  if (one_in(random, 3)) request.cache_salt = "another user";
  return request;
}

SpeculationOptions random_speculation(Random& random, const DraftChoice& choice) {
  if (!choice.layer && one_in(random, 3)) return {};
  // Whether drafts pay off depends on the machine, so most trials always draft.
  SpeculationOptions options{.drafts = DraftKind::ngram,
                             .tokens = random.integer(1, kMaxDraftTokens),
                             .always = !one_in(random, 8),
                             .ranks = random.coin() ? DraftRanks::all : DraftRanks::first};
  std::vector<DraftKind> kinds = {DraftKind::ngram};
  if (choice.itself) kinds.push_back(DraftKind::model);
  if (choice.layer) kinds.push_back(DraftKind::mtp);
  if (kinds.size() > 1) kinds.push_back(DraftKind::automatic);
  options.drafts = kinds[random.integer(0, kinds.size() - 1)];
  return options;
}

}  // namespace

Trial random_trial(Random& random, std::size_t vocab_size, const DraftChoice& choice) {
  Trial trial;
  EngineOptions& options = trial.options;
  options.weights = WeightType::f32;
  options.kv_type = KvType::f32;
  options.threads = 1;
  options.max_length = kLongest;
  options.prefill_chunk = random.integer(1, 64);
  options.max_sequences = random.integer(1, 8);
  options.block_size = random.integer(1, 32);
  options.cache_tokens = random.integer(kLongest + options.block_size, 4 * kLongest);
  if (random.coin())
    options.step_time =
        std::chrono::microseconds(1);  // always exceeded, so that chunks do not depend on the machine
  options.speculation = random_speculation(random, choice);
  if (one_in(random, 4)) options.two_batch_overlap = TwoBatchOverlap::on;
  options.kv_slices = !one_in(random, 3);
  options.kv_store_min = random.integer(1, kLongestPrompt);
  trial.stores = random.coin();
  for (std::size_t count = random.integer(4, 12); count > 0; --count) {
    TrialRequest& one = trial.requests.emplace_back();
    one.request = random_request(random, vocab_size);
    one.arrives = random.integer(0, 12);
    if (one_in(random, 10)) one.cancelled_at = one.arrives + random.integer(1, 12);
  }
  return trial;
}

std::string describe(const SpeculationOptions& options) {
  switch (options.drafts) {
    case DraftKind::ngram:
      return fmt::format("{} drafts of n-grams", options.tokens);
    case DraftKind::model:
      return fmt::format("{} drafts of a model", options.tokens);
    case DraftKind::mtp:
      return fmt::format("{} drafts of the layer", options.tokens);
    case DraftKind::automatic:
      return fmt::format("{} drafts of any kind", options.tokens);
    default:
      return "no drafts";
  }
}

std::string describe(const EngineOptions& options) {
  const SpeculationOptions& speculation = options.speculation;
  return fmt::format(
      "prefill_chunk {}, max_sequences {}, block_size {}, cache_tokens {}, step_time {} ms, {}{}{}{}",
      options.prefill_chunk, options.max_sequences, options.block_size, options.cache_tokens,
      options.step_time.count(), describe(speculation),
      options.two_batch_overlap == TwoBatchOverlap::on ? ", in half-batches" : "",
      options.kv_slices ? "" : ", private caches",
      options.kv_store.empty() ? "" : fmt::format(", stores prompts from {} tokens", options.kv_store_min));
}

std::string describe(const Request& request) {
  const SamplingParams& sampling = request.sampling;
  return fmt::format(
      "prompt [{}], max_tokens {}, n {}, seed {}, temperature {}, top_k {}, top_p {}, min_p {}, penalties {} "
      "{} {}, {} biases, min_tokens {}, stop_token_ids [{}], {} bad words, priority {}, salt '{}'",
      fmt::join(request.prompt, ", "), request.max_tokens, request.n, sampling.seed.value_or(0),
      sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p, sampling.repetition_penalty,
      sampling.presence_penalty, sampling.frequency_penalty, sampling.logit_bias.size(), request.min_tokens,
      fmt::join(request.stop_token_ids, ", "), request.bad_words_ids.size(), request.priority,
      request.cache_salt);
}

}  // namespace tp::differential
