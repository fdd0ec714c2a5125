// What rank 0 gets back of a command.
#pragma once

#include "tp/rank_report.h"
#include "tp/request.h"
#include "tp/token_id.h"
#include "tp/trace.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace tp {

enum class ChoiceError : std::uint8_t {
  none,
  not_numbers,   // logits are NaN or infinite
  none_allowed,  // the request rules every token out that the model does not
};

// A token that was chosen for a row.
struct Chosen {
  TokenId id = 0;
  float logprob = 0.0F;                      // in the model's own distribution, as TokenLogprob
  std::vector<TokenLogprob> top_logprobs{};  // the most likely first; as many as SamplingParams::logprobs
  ChoiceError error = ChoiceError::none;     // then there is no token
};

// The most likely tokens of a row, the first being the likeliest. None if logits are NaN or infinite.
struct RowCandidates {
  std::vector<TokenLogprob> best{};
  std::optional<double> entropy{};  // in nats
};

// Whole rows, end to end.
struct WholeRows {
  std::size_t columns = 0;
  std::vector<float> values{};  // [rows, columns]
};

// By the alternatives of Want: for Score the log-probabilities, NaN where logits are NaN or infinite.
using Result = std::variant<std::vector<Chosen>, std::vector<RowCandidates>, std::vector<double>, WholeRows>;

struct Outputs {
  std::vector<Result> results{};      // of a Forward, in the order of its outputs
  std::vector<RankReport> reports{};  // of a Report, in rank order
  std::vector<RankTrace> traces{};    // of a GatherTrace, in rank order
};

}  // namespace tp
