#include "runtime/engine/wanted_outputs.h"

#include "runtime/engine/logit_ops.h"

#include <algorithm>

namespace tp {

SequenceStart start_of(const Sequence& sequence, std::size_t position) {
  const RequestState& state = *sequence.state;
  SequenceStart start{.sampling = state.request.sampling,
                      .seed = state.seed,
                      .sample = static_cast<std::uint64_t>(sequence.sample),
                      .prefix = {},
                      .prompt_tokens = sequence.prompt_tokens(),
                      .attention = state.request.attention};
  if (needs_history(start.sampling)) {
    const auto begin = sequence.tokens.begin();
    start.prefix.assign(begin, begin + static_cast<std::ptrdiff_t>(position));
  }
  return start;
}

namespace {

// Adds the outputs for the prompt's positions [begin, end), which are in the chunk. Candidates come before
// the scores, as Leader::settle_result expects.
void ask_about_prompt(const Sequence& sequence, std::size_t begin, std::size_t end, std::size_t first_row,
                      std::vector<Output>& outputs) {
  Output output{sequence.id,
                {static_cast<std::uint32_t>(first_row), static_cast<std::uint32_t>(end - begin)},
                want::Logits{}};
  const Request& request = sequence.state->request;
  if (request.prompt_logits) return outputs.push_back(std::move(output));
  if (request.score_top > 0) {
    outputs.push_back(output);
    outputs.back().want = want::Candidates{.count = static_cast<std::uint32_t>(request.score_top)};
  }
  const std::vector<TokenId>& prompt = request.prompt;
  const auto next = prompt.begin() + static_cast<std::ptrdiff_t>(begin) + 1;
  output.want = want::Score{{next, next + static_cast<std::ptrdiff_t>(end - begin)}};
  outputs.push_back(std::move(output));
}

// Tokens that must not come next: those that would end the sequence too early, or complete a bad word.
std::vector<TokenId> banned_next(const Sequence& sequence) {
  const RequestState& state = *sequence.state;
  std::vector<TokenId> banned;
  if (sequence.generated_tokens() < static_cast<std::size_t>(state.request.min_tokens))
    banned = state.end_ids;
  const std::span<const TokenId> generated = std::span(sequence.tokens).subspan(sequence.prompt_tokens());
  for (const std::vector<TokenId>& word : state.bad_words) {
    const std::size_t begun = word.size() - 1;
    if (begun > generated.size()) continue;
    if (std::ranges::equal(generated.last(begun), std::span(word).first(begun)))
      banned.push_back(word.back());
  }
  return banned;
}

}  // namespace

std::vector<Output> outputs_of(const Sequence& sequence, std::size_t begin, std::size_t end,
                               std::size_t first_row) {
  std::vector<Output> outputs;
  const Request& request = sequence.state->request;
  const std::size_t first = std::max(begin, sequence.asked_from);
  // No prompt token follows the last one, so there is nothing to score at its position.
  const std::size_t last = std::min(end, request.prompt.size() - (request.prompt_logits ? 0 : 1));
  if (sequence.is_asked() && first < last)
    ask_about_prompt(sequence, first, last, first_row + (first - begin), outputs);
  if (sequence.state->max_tokens > 0 && end == sequence.tokens.size())
    outputs.push_back({sequence.id,
                       {static_cast<std::uint32_t>(first_row + (end - begin) - 1), 1},
                       want::Choose{banned_next(sequence), request.allowed_tokens != nullptr}});
  return outputs;
}

}  // namespace tp
