// The parts of a block. To add a kind of part, extend a variant below.
#pragma once

#include "model/layers/attention/attention.h"
#include "model/layers/attention/compressed_attention.h"
#include "model/layers/attention/cross_attention.h"
#include "model/layers/attention/gated_delta_net.h"
#include "model/layers/attention/latent_attention.h"
#include "model/layers/attention/lsh_attention.h"
#include "model/layers/attention/mamba.h"
#include "model/layers/attention/mamba1.h"
#include "model/layers/attention/rwkv7.h"
#include "model/layers/attention/short_convolution.h"
#include "model/layers/feed_forward/mixture_of_experts.h"
#include "model/layers/feed_forward/mlp.h"
#include "model/layers/linear/norm.h"

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tp {

// The half that a block does not have, and therefore never computes.
struct NoPart {
  NoPart(WeightLoader&, const NoPartSpec&, std::size_t, const BlockNames&) {}
  PartialSum operator()(TensorView<const float>, const StepContext&) const {
    return PartialSum(TensorView<float>());
  }
};

// Any kind of attention, or a layer that replaces attention.
class AttentionPart {
 public:
  // Throws ConfigError or CheckpointError.
  AttentionPart(WeightLoader& loader, const AttentionPartSpec& spec, std::size_t hidden_size,
                const BlockNames& names);

  // Whether the block has this half.
  bool exists() const { return !std::holds_alternative<NoPart>(part_); }

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]. Also writes to the cache, if the
  // part uses it.
  PartialSum operator()(TensorView<const float> x, const StepContext& step,
                        const kernels::PagedCache& cache) const;

  // See Attention::remember. Nothing for other parts, which no drafter has.
  void remember(TensorView<const float> x, const StepContext& step, const kernels::PagedCache& cache) const {
    if (const auto* const attention = std::get_if<Attention>(&part_)) attention->remember(x, step, cache);
  }

  // Cache layout on this rank; empty if the part caches nothing.
  kernels::KvLayout kv_layout(KvType type, std::size_t block_size) const;
  // Size of one sequence's state on this rank, in floats; 0 if the part is not recurrent.
  std::size_t state_floats() const;
  std::vector<StatePart> state_parts() const;

 private:
  std::variant<Attention, LatentAttention, CompressedAttention, GatedDeltaNet, LshAttention, ShortConvolution,
               Mamba, Mamba1, Rwkv7, NoPart>
      part_;
};

// Any kind of feed-forward half.
class FeedForwardPart {
 public:
  // Throws ConfigError or CheckpointError.
  FeedForwardPart(WeightLoader& loader, const FeedForwardSpec& spec, std::size_t hidden_size,
                  const BlockNames& names);

  // Whether the block has this half.
  bool exists() const { return !std::holds_alternative<NoPart>(part_); }

  // x: [tokens, hidden_size] -> this rank's addend, [tokens, hidden_size]
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

  // Size of one sequence's state, in floats; 0 if the part is not recurrent. Every rank has the whole state.
  std::size_t state_floats() const;
  std::vector<StatePart::Rows> state_rows() const;

 private:
  // Null if the part has no token shift.
  const TokenShift* token_shift() const;

  std::variant<GatedMlp, PlainMlp, MixtureOfExperts, NoPart> part_;
};

std::optional<Norm> load_if_present(WeightLoader& loader, const std::string& name, std::size_t hidden_size,
                                    const std::optional<NormSpec>& spec);

// A block's cross-attention to the encoder's states; nullopt if the spec has none.
std::optional<CrossAttention> load_cross_attention(WeightLoader& loader, const BlockSpec& spec,
                                                   std::size_t hidden_size, const BlockNames& names);

}  // namespace tp
