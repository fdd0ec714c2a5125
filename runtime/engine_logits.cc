// What the engine says of a sequence that it is given, instead of continuing it.
#include "runtime/engine_impl.h"
#include "tp/error.h"

#include <algorithm>
#include <cmath>

namespace tp {
namespace {

// No request has this number; the ranks' table for it is replaced by every call.
constexpr SequenceId kAlone = 0;

}  // namespace

// Cache blocks for the whole sequence, under the number kAlone.
std::vector<BlockId> Engine::Impl::reserve_alone(std::span<const TokenId> tokens) {
  Request request;
  request.prompt.assign(tokens.begin(), tokens.end());
  request.max_tokens = 1;
  // What is said of the last position needs no place for a token after it.
  if (request.prompt.size() == plan_.max_length) request.prompt.pop_back();
  check_request(request);

  std::vector<BlockId> blocks;
  blocks_->begin_sequence(kAlone, {});
  const bool fits = blocks_->try_reserve(kAlone, tokens.size(), blocks);
  if (!fits) blocks_->end_sequence(kAlone);
  require<RequestError>(fits,
                        "the sequence has {} tokens but other requests leave no room for them in the cache "
                        "of {}; wait until they have ended",
                        tokens.size(), info_.cache_tokens);
  return blocks;
}

// Computes a sequence in chunks. The positions from `first_output` on have an output, and the sink is given
// positions as their indices.
void Engine::Impl::run_alone(std::span<const TokenId> tokens, std::size_t first_output,
                             const std::function<OutputRow(std::size_t)>& output_after,
                             const OutputSink& sink) {
  const std::vector<BlockId> blocks = reserve_alone(tokens);
  for (std::size_t begin = 0; begin < tokens.size(); begin += plan_.prefill_chunk) {
    const std::span<const TokenId> chunk =
        tokens.subspan(begin, std::min<std::size_t>(plan_.prefill_chunk, tokens.size() - begin));
    Step step;
    step.tokens.assign(chunk.begin(), chunk.end());
    step.chunks.push_back({kAlone, begin, static_cast<std::uint32_t>(chunk.size()), begin == 0,
                           begin == 0 ? blocks : std::vector<BlockId>()});
    const std::size_t first = std::max(begin, first_output);
    for (std::size_t position = first; position < begin + chunk.size(); ++position) {
      OutputRow output = output_after(position);
      output.row = static_cast<std::uint32_t>(position - begin);
      step.outputs.push_back(output);
    }
    lead(step,
         {.on_candidates = [&](std::size_t index,
                               Candidates found) { sink.on_candidates(first + index, std::move(found)); },
          .on_row = [&](std::size_t index, std::span<const float> row) { sink.on_row(first + index, row); }});
  }
  blocks_->end_sequence(kAlone);
}

void Engine::Impl::logits(std::span<const TokenId> tokens,
                          const std::function<void(std::size_t, std::span<const float>)>& on_row) {
  check_token_ids(tokens);
  const OutputRow whole_row{.candidates = static_cast<std::uint32_t>(plan_.config.vocab_size)};
  run_alone(tokens, 0, [&](std::size_t) { return whole_row; }, {.on_candidates = {}, .on_row = on_row});
}

std::vector<double> Engine::Impl::logprobs(std::span<const TokenId> tokens, std::size_t first) {
  require<RequestError>(first >= 1 && first < tokens.size(),
                        "cannot tell the probability of token {} of {}; expected one that has a token before "
                        "it, and is there",
                        first, tokens.size());
  check_token_ids(tokens);
  std::vector<double> logprobs(tokens.size() - first);
  const auto next_token = [&](std::size_t position) { return OutputRow{.target = tokens[position + 1]}; };
  const auto keep = [&](std::size_t position, const Candidates& found) {
    logprobs[position + 1 - first] = found.entries.front().logit - found.log_sum_exp;
  };
  // Nothing is asked of the last token but to be foretold.
  run_alone(tokens.first(tokens.size() - 1), first - 1, next_token, {.on_candidates = keep, .on_row = {}});
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    require<RequestError>(std::isfinite(logprobs[i]),
                          "cannot tell the probability of token {}: the model's logits are not numbers "
                          "(expected finite ones, found NaN or infinity); check the checkpoint, and try "
                          "--weights f32 if it is stored as f16",
                          first + i);
  }
  return logprobs;
}

}  // namespace tp
