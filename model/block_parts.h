// The parts that a block can have; a further kind is a further alternative.
#pragma once

#include "model/attention.h"
#include "model/latent_attention.h"
#include "model/mixture_of_experts.h"
#include "model/mlp.h"
#include "model/norm.h"

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

namespace tp {

// PartialSum operator()(TensorView<const float> x, const StepContext&, const kernels::PagedCache&)
using AttentionPart = std::variant<Attention, LatentAttention>;
// PartialSum operator()(TensorView<const float> x, Workspace&)
using FeedForwardPart = std::variant<GatedMlp, PlainMlp, MixtureOfExperts>;

// These throw ConfigError or CheckpointError.
AttentionPart load_attention(WeightLoader& loader, const AttentionPartSpec& spec, std::size_t hidden_size,
                             const BlockNames& names);
FeedForwardPart load_feed_forward(WeightLoader& loader, const FeedForwardSpec& spec, std::size_t hidden_size,
                                  const BlockNames& names);
std::optional<Norm> load_if_present(WeightLoader& loader, const std::string& name, std::size_t hidden_size,
                                    const std::optional<NormSpec>& spec);

// Bytes of weights that a rank holds of a part.
template <class... Part>
std::size_t bytes_of(const std::variant<Part...>& part) {
  return std::visit([](const auto& alternative) { return alternative.bytes(); }, part);
}
inline std::size_t bytes_of(const std::optional<Norm>& norm) { return norm ? norm->bytes() : 0; }

}  // namespace tp
