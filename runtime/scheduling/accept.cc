#include "runtime/scheduling/accept.h"

#include "runtime/constraint/request_constraint.h"
#include "tp/error.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr const char* kNotNumbers =
    "the model's logits are not finite (expected numbers, found NaN or infinity); check the checkpoint, and "
    "try `weights` f32 if it is stored as f16";

TokenEvent event_of(const Sequence& sequence) {
  TokenEvent event;
  event.request = sequence.state->id;
  event.sample = sequence.sample;
  event.cached_tokens = sequence.cached_tokens;
  event.restored_tokens = sequence.state->times.restored_tokens;
  event.restore_seconds = sequence.state->times.restore_seconds;
  event.drafted_tokens = sequence.drafted_tokens;
  event.accepted_tokens = sequence.accepted_tokens;
  return event;
}

std::string error_of(const Chosen& chosen) {
  if (chosen.error == ChoiceError::not_numbers) return fmt::format("cannot choose a token: {}", kNotNumbers);
  return "cannot choose a token: the request excludes every token that the model allows (expected at least "
         "one allowed token); exclude fewer";
}

// Does not look for stop texts; add_text does.
FinishReason finish_reason_of(const Sequence& sequence, TokenId token) {
  if (std::ranges::find(sequence.state->end_ids, token) != sequence.state->end_ids.end())
    return FinishReason::stop;
  if (sequence.generated_tokens() >= sequence.state->max_tokens) return FinishReason::length;
  return FinishReason::none;
}

// Adds to the event whatever text the token completes. Ends the sequence if the text contains a stop text.
void add_text(Sequence& sequence, const Tokenizer& tokenizer, TokenEvent& event) {
  const Request& request = sequence.state->request;
  if (!sequence.text) sequence.text.emplace(tokenizer, request);
  const bool may_stop = sequence.generated_tokens() > static_cast<std::size_t>(request.min_tokens);
  event.text = sequence.text->push(event.token, may_stop);
  if (sequence.finished()) event.text += sequence.text->finish();
  if (!sequence.text->stopped()) return;
  sequence.finish_reason = FinishReason::stop;
  event.matched_stop = sequence.text->stop();
}

// Advances the constraint, and ends the sequence if no further token is allowed.
void advance_constraint(Sequence& sequence, TokenId token) {
  const constraint::RequestConstraint& constraint = *sequence.state->constraint;
  sequence.progress = constraint.after(sequence.constraint_progress(), token);
  if (sequence.finish_reason == FinishReason::stop) return;
  if (sequence.progress->state == constraint::kDead)
    throw std::logic_error("a token was chosen that the constraint does not allow");
  if (constraint.is_over(*sequence.progress)) sequence.finish_reason = FinishReason::stop;
}

TokenEvent append(Sequence& sequence, const Chosen& chosen, const Tokenizer* tokenizer) {
  RequestState& state = *sequence.state;
  if (state.times.first_token == RequestTimes::Clock::time_point{})
    state.times.first_token = RequestTimes::Clock::now();
  sequence.tokens.push_back(chosen.id);
  TokenEvent event = event_of(sequence);
  event.token = chosen.id;
  if (state.request.sampling.logprobs >= 0) {
    event.logprob = TokenLogprob{chosen.id, chosen.logprob};
    event.top_logprobs = chosen.top_logprobs;
  }
  sequence.finish_reason = finish_reason_of(sequence, chosen.id);
  if (state.constraint) advance_constraint(sequence, chosen.id);
  const std::vector<TokenId>& stops = state.request.stop_token_ids;
  if (sequence.finish_reason == FinishReason::stop && std::ranges::find(stops, chosen.id) != stops.end())
    event.matched_stop = chosen.id;
  if (tokenizer != nullptr) add_text(sequence, *tokenizer, event);
  event.finish_reason = sequence.finish_reason;
  return event;
}

}  // namespace

std::vector<TokenId> forced_tokens_next(const Sequence& sequence) {
  const RequestState& state = *sequence.state;
  const bool needs_logits = state.request.sampling.logprobs >= 0;
  if (!state.constraint || sequence.finished() || needs_logits) return {};
  return state.constraint->forced(sequence.constraint_progress());
}

TokenEvent fail(Sequence& sequence, std::string error) {
  TokenEvent event = event_of(sequence);
  event.error = std::move(error);
  event.finish_reason = sequence.finish_reason = FinishReason::error;
  return event;
}

TokenEvent accept(Sequence& sequence, const Chosen& chosen, const Tokenizer* tokenizer) {
  if (chosen.error != ChoiceError::none) return fail(sequence, error_of(chosen));
  try {
    return append(sequence, chosen, tokenizer);
  } catch (const std::bad_alloc&) {
    return fail(sequence, kOutOfMemory);
  } catch (const RequestError& error) {  // the constraint has become too large
    return fail(sequence, error.what());
  }
}

std::vector<TokenEvent> replay(Sequence& sequence, const Tokenizer* tokenizer) {
  const Request& request = sequence.state->request;
  const auto sample = static_cast<std::size_t>(sequence.sample);
  if (sample >= request.generated.size() || request.generated[sample].empty()) return {};
  try {
    std::vector<TokenEvent> events;
    sequence.tokens = request.prompt;
    for (const TokenId token : request.generated[sample]) {
      require<RequestError>(!sequence.finished(), "they go on after the end of the text");
      events.push_back(append(sequence, {.id = token}, tokenizer));
      events.back().logprob.reset();
    }
    return events;
  } catch (const std::bad_alloc&) {
    return {fail(sequence, kOutOfMemory)};
  } catch (const std::exception& error) {
    return {fail(
        sequence,
        fmt::format("`generated`: expected the tokens of an earlier run of this request: {}", error.what()))};
  }
}

PromptLogprobs take_scores(Sequence& sequence, std::span<const double> logprobs) {
  const std::size_t first = std::exchange(sequence.asked_from, sequence.asked_from + logprobs.size()) + 1;
  std::vector<double> all = std::exchange(sequence.recalled, {});
  std::vector<std::vector<TokenLogprob>> top = std::exchange(sequence.prompt_top, {});
  if (sequence.can_recall()) {
    if (sequence.unkept.logprobs.empty()) sequence.unkept_from = first;
    sequence.unkept.append(logprobs, std::span(top).last(top.empty() ? 0 : logprobs.size()));
  }
  const std::size_t begin = first - all.size();
  all.insert(all.end(), logprobs.begin(), logprobs.end());
  return {sequence.state->id, begin, std::move(all), std::move(top)};
}

std::optional<TokenEvent> check_logprobs(Sequence& sequence, std::size_t first,
                                         std::span<const double> logprobs) {
  const auto spoilt = std::ranges::find_if(logprobs, [](double logprob) { return std::isnan(logprob); });
  if (spoilt == logprobs.end()) return std::nullopt;
  return fail(sequence,
              fmt::format("cannot compute the log-probability of token {}: {}",
                          first + static_cast<std::size_t>(spoilt - logprobs.begin()), kNotNumbers));
}

}  // namespace tp
