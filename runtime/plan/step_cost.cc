#include "runtime/plan/step_cost.h"

#include <algorithm>
#include <cmath>

namespace tp {
namespace {

// Share of the experts that this many tokens use, if all choices are equally likely.
double touched_experts(const RankShape& shape, double tokens) {
  if (shape.experts == 0) return 0.0;
  const double untouched =
      1.0 - static_cast<double>(shape.experts_per_token) / static_cast<double>(shape.experts);
  return 1.0 - std::pow(untouched, tokens);
}

// Bytes of weights that the step reads.
double weight_bytes(const RankShape& shape, const StepLoad& load) {
  const LoadedWeights& blocks = shape.work.blocks;
  const auto experts = static_cast<double>(blocks.expert_bytes);
  return static_cast<double>(blocks.bytes) - experts +
         experts * touched_experts(shape, static_cast<double>(load.tokens)) +
         (load.outputs == 0 ? 0.0 : static_cast<double>(shape.work.head.bytes));
}

// Number of multiplications by weights.
double weight_products(const RankShape& shape, const StepLoad& load) {
  const LoadedWeights& blocks = shape.work.blocks;
  const auto experts = static_cast<double>(blocks.expert_elements);
  const double routed = shape.experts == 0 ? 0.0
                                           : experts * static_cast<double>(shape.experts_per_token) /
                                                 static_cast<double>(shape.experts);
  return static_cast<double>(load.tokens) * (static_cast<double>(blocks.elements) - experts + routed) +
         static_cast<double>(load.outputs) * static_cast<double>(shape.work.head.elements);
}

// Number of positions that tokens of one sequence attend to: the mean of a token, and the total of all
// tokens.
struct Seen {
  double mean = 0.0;
  double together = 0.0;
};

Seen seen_of(const AttentionShape& kind, double context, double tokens) {
  // The first token's chunk begins here: earlier tokens are not seen.
  if (kind.chunked && kind.window) context = std::fmod(context, static_cast<double>(*kind.window));
  const double all = context + (tokens + 1.0) / 2.0;
  const double max = kind.window ? static_cast<double>(*kind.window) : all;
  // Once there are several chunks, a token sees half a chunk on average.
  if (kind.chunked && context + tokens > max) return {(max + 1.0) / 2.0, context + tokens};
  return {std::min(all, max), std::min(context + tokens, max + tokens)};
}

}  // namespace

StepCost step_cost(const RankShape& shape, const StepLoad& load) {
  StepCost cost{.weight_bytes = weight_bytes(shape, load), .multiplications = weight_products(shape, load)};
  const double each = static_cast<double>(load.tokens) / static_cast<double>(load.sequences);
  const auto sequences = static_cast<double>(load.sequences);
  for (const AttentionShape& kind : shape.attention) {
    const Seen seen = seen_of(kind, static_cast<double>(load.context), each);
    cost.cache_bytes += kind.layers * sequences * seen.together * kind.bytes_per_position;
    cost.cache_bytes += kind.layers * sequences * kind.bytes_per_sequence;
    cost.multiplications += kind.layers * static_cast<double>(load.tokens) * seen.mean * kind.multiplications;
  }
  return cost;
}

}  // namespace tp
