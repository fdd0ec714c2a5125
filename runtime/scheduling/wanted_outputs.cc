#include "runtime/scheduling/wanted_outputs.h"

#include "runtime/sampling/logit_ops.h"

#include <algorithm>

namespace tp {

SequenceStart start_of(const Sequence& sequence, std::size_t position) {
  const RequestState& state = *sequence.state;
  SequenceStart start{.sampling = state.request.sampling,
                      .seed = state.seed,
                      .sample = static_cast<std::uint64_t>(sequence.sample),
                      .prefix = {},
                      .prompt_tokens = sequence.prompt_tokens() - state.input.positions,
                      .input = state.input,
                      .bidirectional = state.request.bidirectional,
                      .attention_block = state.attention_block,
                      .context = state.pass.cache.tokens,
                      .canvas = state.pass.canvas,
                      .adapter = static_cast<std::uint32_t>(state.adapter)};
  if (needs_history(start.sampling) && position > state.input.positions) {
    const auto first = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(state.input.positions);
    start.prefix.assign(first, sequence.tokens.begin() + static_cast<std::ptrdiff_t>(position));
  }
  return start;
}

namespace {

// Requests proposals. Consecutive positions share one output.
void ask_for_proposals(const Sequence& sequence, std::size_t begin, std::size_t end, std::size_t first_row,
                       std::vector<Output>& outputs) {
  const Request& request = sequence.state->request;
  std::size_t next = SIZE_MAX;  // position after the last output
  for (const std::size_t position : request.candidates_at) {
    if (position < begin || position >= end) continue;
    if (position == next)
      ++outputs.back().rows.count;
    else
      outputs.push_back({sequence.id,
                         {static_cast<std::uint32_t>(first_row + (position - begin)), 1},
                         want::Proposal{*request.proposal}});
    next = position + 1;
  }
}

// Requests one output for each of these positions.
template <class Want>
void ask_at(const std::vector<std::size_t>& positions, const Want& want, const Sequence& sequence,
            std::size_t begin, std::size_t end, std::size_t first_row, std::vector<Output>& outputs) {
  for (const std::size_t position : positions) {
    if (position < begin || position >= end) continue;
    outputs.push_back({sequence.id, {static_cast<std::uint32_t>(first_row + (position - begin)), 1}, want});
  }
}

// Adds the outputs for the chunk's prompt positions [begin, end). Candidates come before scores, as
// Leader::apply_result expects.
void ask_about_prompt(const Sequence& sequence, std::size_t begin, std::size_t end, std::size_t first_row,
                      std::vector<Output>& outputs) {
  Output output{sequence.id,
                {static_cast<std::uint32_t>(first_row), static_cast<std::uint32_t>(end - begin)},
                want::Logits{}};
  const Request& request = sequence.state->request;
  if (request.prompt_logits) return outputs.push_back(std::move(output));
  if (!request.states_at.empty())
    return ask_at(request.states_at, want::Hidden{}, sequence, begin, end, first_row, outputs);
  if (request.prompt_hidden || request.pooling) {
    output.want = want::Hidden{};
    return outputs.push_back(std::move(output));
  }
  if (request.proposal) return ask_for_proposals(sequence, begin, end, first_row, outputs);
  if (!request.candidates_at.empty()) {
    const want::Candidates candidates{.count = static_cast<std::uint32_t>(request.candidates)};
    return ask_at(request.candidates_at, candidates, sequence, begin, end, first_row, outputs);
  }
  if (request.score_top > 0) {
    outputs.push_back(output);
    outputs.back().want = want::Candidates{.count = static_cast<std::uint32_t>(request.score_top)};
  }
  const std::vector<TokenId>& prompt = request.prompt;
  const auto next = prompt.begin() + static_cast<std::ptrdiff_t>(begin) + 1;
  output.want = want::Score{{next, next + static_cast<std::ptrdiff_t>(end - begin)}};
  outputs.push_back(std::move(output));
}

}  // namespace

std::vector<Output> outputs_of(const Sequence& sequence, std::size_t begin, std::size_t end,
                               std::size_t first_row, std::span<const TokenId> drafts) {
  std::vector<Output> outputs;
  const std::size_t first = std::max(begin, sequence.asked_from);
  const std::size_t last = std::min(end, sequence.state->asked_end());
  if (sequence.is_asked() && first < last)
    ask_about_prompt(sequence, first, last, first_row + (first - begin), outputs);
  if (sequence.state->max_tokens == 0 || end != sequence.tokens.size()) return outputs;
  const bool is_masked = sequence.is_masked() || sequence.forced_next().has_value();
  // In an encoder-decoder's sequence, only the decoder's tokens are text.
  const std::size_t input = sequence.state->input.positions;
  const std::span<const TokenId> text = std::span(sequence.tokens).subspan(input);
  const auto choose = [&](std::size_t row, std::span<const TokenId> text_so_far) {
    outputs.push_back(
        {sequence.id,
         {static_cast<std::uint32_t>(row), 1},
         want::Choose{sequence.state->bans.after(text_so_far, sequence.prompt_tokens() - input), is_masked}});
  };
  std::size_t row = first_row + (end - begin) - 1;
  choose(row, text);
  if (drafts.empty()) return outputs;
  std::vector<TokenId> with_drafts(text.begin(), text.end());
  for (const TokenId draft : drafts) {
    with_drafts.push_back(draft);
    choose(++row, with_drafts);
  }
  return outputs;
}

}  // namespace tp
