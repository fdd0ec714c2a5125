#include "tests/differential/random_trial.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp::differential {
namespace {

using reference::Random;

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

// Asks for results about the prompt instead of a continuation.
void ask(Random& random, const TrialModel& model, Request& request) {
  request.max_tokens = 0;
  const auto can = [&](Task task) { return does(model.kind, task) && one_in(random, 2); };
  if (can(Task::score) && request.prompt.size() > 1)
    request.score_from = random.integer(1, request.prompt.size() - 1);
  else if (can(Task::embed))
    request.pooling = static_cast<Pooling>(random.integer(0, 2));
  else if (can(Task::logits) && model.kind != ModelKind::classifier)
    request.prompt_logits = true;
  else
    request.prompt_hidden = true;
}

Request random_request(Random& random, const TrialModel& model) {
  const std::size_t vocab_size = model.config.vocab_size;
  Request request;
  request.prompt = random_prompt(random, vocab_size);
  if (one_in(random, 3)) request.cache_salt = "another user";
  if (one_in(random, 6)) request.cache_prompt = false;
  const bool is_decoder = model.kind == ModelKind::decoder;
  if (!does(model.kind, Task::generate) || (is_decoder && one_in(random, 8))) {
    ask(random, model, request);
    return request;
  }
  request.sampling = random_sampling(random, vocab_size);
  request.max_tokens = static_cast<int>(random.integer(1, kLongestAnswer));
  request.ignore_eos = random.coin();
  if (one_in(random, 4)) request.n = static_cast<int>(random.integer(2, 4));
  if (one_in(random, 4)) request.stop_token_ids = random_tokens(random, 4, vocab_size);
  if (model.kind == ModelKind::diffusion) {  // has no other settings
    const SamplingParams& all = request.sampling;
    request.sampling = {
        .temperature = all.temperature, .top_k = all.top_k, .top_p = all.top_p, .seed = all.seed};
    return request;
  }
  if (one_in(random, 5)) request.min_tokens = static_cast<int>(random.integer(0, 5));
  request.min_tokens = std::min(request.min_tokens, request.max_tokens);
  if (one_in(random, 5)) request.bad_words_ids = {random_tokens(random, 1, vocab_size)};
  if (one_in(random, 6) && is_decoder && request.prompt.size() > 1)
    request.score_from = random.integer(1, request.prompt.size() - 1);
  if (one_in(random, 6)) request.speculate = false;
  return request;
}

}  // namespace

Effect Trial::effect() const {
  if (options.same_bits) return Effect::none;
  Effect largest = Effect::last_bits;
  for (const Option* option : drawn) largest = std::max(largest, option->effect);
  return largest;
}

const Option* Trial::refused_by(const std::string& error) const {
  const auto refuses = [&](const Option* option) {
    const std::string quoted = fmt::format("`{}`", option->name);
    return error.find(option->refusal.empty() ? quoted : option->refusal) != error.npos;
  };
  const auto found = std::ranges::find_if(drawn, refuses);
  return found == drawn.end() ? nullptr : *found;
}

// To find the options that matter for a failure: names, with commas.
static bool is_left_out(const Option& option) {
  const char* const names = std::getenv("TP_DIFFERENTIAL_WITHOUT");
  return names != nullptr &&
         fmt::format(",{},", names).find(fmt::format(",{},", option.name)) != std::string::npos;
}

Trial random_trial(Random& random, const TrialModel& model, std::size_t max_ranks) {
  const EngineOptions plain{
      .weights = WeightType::f32, .kv_type = KvType::f32, .max_length = kLongest, .threads = 1};
  Trial trial{.ranks = max_ranks, .options = plain, .reference = plain, .description = model.name};
  trial.reference.max_sequences = 1;
  for (std::size_t count = random.integer(4, 12); count > 0; --count) {
    TrialRequest& one = trial.requests.emplace_back();
    one.request = random_request(random, model);
    one.arrives = random.integer(0, 12);
    if (one_in(random, 10)) one.cancelled_at = one.arrives + random.integer(1, 12);
  }
  for (const Option& option : all_options()) {
    const std::size_t rarer = option.models.include(model) ? 1 : 20;
    if (option.draw == nullptr || !one_in(random, rarer * option.one_in)) continue;
    Random copy = random;
    const Trial before = trial;
    Draw own{random, model, trial, trial.options};
    Draw shared{copy, model, trial, trial.reference};
    const std::string value = option.draw(own);
    if (option.is_shared) option.draw(shared);
    if (is_left_out(option)) trial = before;
    if (value.empty() || is_left_out(option)) continue;
    trial.drawn.push_back(&option);
    trial.description += fmt::format(", {} {}", option.name, value);
  }
  return trial;
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
