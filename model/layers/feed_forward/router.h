// Chooses experts for each token.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tp {

// The rows of a batch that one expert processes, in ascending order, and each row's weight.
struct ExpertTokens {
  std::span<const std::size_t> rows;
  std::span<const float> weights;
};

// A batch's tokens, grouped by expert so that each expert's weights are read only once.
class Routing {
 public:
  // experts, weights: [tokens, num_experts_per_tok].
  Routing(std::size_t num_experts, std::size_t num_experts_per_tok, std::span<const std::size_t> experts,
          std::span<const float> weights);

  // The tokens of one expert; may be empty.
  ExpertTokens of(std::size_t expert) const {
    const std::size_t count = first_[expert + 1] - first_[expert];
    return {std::span(rows_).subspan(first_[expert], count),
            std::span(weights_).subspan(first_[expert], count)};
  }

 private:
  // [num_experts + 1]: the index of each expert's first entry, then the total number of entries.
  std::vector<std::size_t> first_;
  std::vector<std::size_t> rows_;  // [tokens * num_experts_per_tok]
  std::vector<float> weights_;     // [tokens * num_experts_per_tok]
};

// Chooses one token's experts. logits: [num_experts]; bias: [num_experts], or empty. Writes
// num_experts_per_tok experts, best first, and their weights. Among equal scores, the lower index wins.
void choose_experts(const RouterSpec& spec, std::span<const float> logits, std::span<const float> bias,
                    std::span<std::size_t> experts, std::span<float> weights);

// Weighs a token's experts, which do not follow from scores.
void weigh_experts(const RouterSpec& spec, std::span<const float> logits,
                   std::span<const std::size_t> experts, std::span<float> weights);

// Every rank holds the whole router, in float32. The input has the same bits on all ranks, so all ranks
// choose the same experts without communication.
class Router {
 public:
  // Throws CheckpointError.
  Router(WeightLoader& loader, const RouterSpec& spec, std::size_t hidden_size, const ExpertNames& names);

  // x: [tokens, hidden_size]. Shape-only steps get the worst case: one expert processes all tokens.
  Routing operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  RouterSpec spec_;
  std::size_t hidden_size_;
  Buffer<float> weight_;                    // [num_experts, hidden_size]
  std::vector<float> bias_;                 // [num_experts], or empty; added to the logits
  std::vector<float> correction_bias_;      // [num_experts], or empty; added to scores for selection only
  std::vector<std::uint16_t> token_table_;  // [vocab_size, num_experts_per_tok], or empty
  std::optional<Norm> input_norm_;
  std::vector<float> per_expert_scale_;  // [num_experts], factors of the weights; or empty
};

}  // namespace tp
