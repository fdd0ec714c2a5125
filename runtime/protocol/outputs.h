// The results of a command, on rank 0.
#pragma once

#include "runtime/protocol/store_work.h"
#include "tp/peak_rates.h"
#include "tp/rank_report.h"
#include "tp/request.h"
#include "tp/token_id.h"
#include "tp/trace.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace tp {

enum class ChoiceError : std::uint8_t {
  none,
  not_numbers,   // logits are NaN or infinite
  none_allowed,  // the request rules out every token that the model allows
};

// The token chosen for a row.
struct Chosen {
  TokenId id = 0;
  float logprob = 0.0F;                      // as in TokenLogprob
  std::vector<TokenLogprob> top_logprobs{};  // SamplingParams::logprobs entries, most likely first
  ChoiceError error = ChoiceError::none;     // if set, no token was chosen
  // A drafter's own estimate that the target accepts the token: the logit of its probability. Only on the
  // rank that chose the token.
  std::optional<float> confidence{};
};

// The most likely tokens of a row, most likely first. Empty if logits are NaN or infinite.
struct RowCandidates {
  std::vector<TokenLogprob> best{};
  std::optional<double> entropy{};  // in nats
};

// Whole rows, concatenated.
struct WholeRows {
  std::size_t columns = 0;
  std::vector<float> values{};  // [rows, columns]
};

// One alternative per kind of Want: Choose; Candidates; Score (log-probabilities, NaN if logits are NaN or
// infinite); Logits or Hidden; Proposal.
using Result = std::variant<std::vector<Chosen>, std::vector<RowCandidates>, std::vector<double>, WholeRows,
                            std::vector<Proposal>>;

struct Outputs {
  std::vector<Result> results{};      // results of a Forward, in the order of its outputs
  std::vector<RankReport> reports{};  // reports of a Report, in rank order
  std::vector<RankTrace> traces{};    // traces of a GatherTrace, in rank order
  std::vector<StoreReport> store{};   // answers to StoreWork, in rank order
  // Result of MeasurePeakRates over all ranks; empty if memory does not suffice.
  std::optional<PeakRates> peak_rates{};
};

}  // namespace tp
