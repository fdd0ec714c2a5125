#include "model/layers/blocks/block_parts.h"

#include <type_traits>

namespace tp {
namespace {

// Makes the first alternative of `AnyPart`, from `kIndex` on, that implements the spec.
template <class AnyPart, std::size_t kIndex = 0, class Spec>
AnyPart part_of(WeightLoader& loader, const Spec& spec, std::size_t hidden_size, const BlockNames& names) {
  using Part = std::variant_alternative_t<kIndex, AnyPart>;
  if constexpr (std::is_constructible_v<Part, WeightLoader&, const Spec&, std::size_t, const BlockNames&>)
    return Part(loader, spec, hidden_size, names);
  else
    return part_of<AnyPart, kIndex + 1>(loader, spec, hidden_size, names);
}

template <class AnyPart, class AnySpec>
AnyPart load(WeightLoader& loader, const AnySpec& spec, std::size_t hidden_size, const BlockNames& names) {
  return std::visit([&](const auto& part) { return part_of<AnyPart>(loader, part, hidden_size, names); },
                    spec);
}

}  // namespace

AttentionPart::AttentionPart(WeightLoader& loader, const AttentionPartSpec& spec, std::size_t hidden_size,
                             const BlockNames& names)
    : part_(load<decltype(part_)>(loader, spec, hidden_size, names)) {}

PartialSum AttentionPart::operator()(TensorView<const float> x, const StepContext& step,
                                     const kernels::PagedCache& cache) const {
  const TraceSpan span(step.tracer, Activity::attention, x.rows());
  return std::visit(
      [&](const auto& part) {
        if constexpr (requires { part(x, step); }) {  // a part without a cache
          return part(x, step);
        } else {
          return part(x, step, cache);
        }
      },
      part_);
}

kernels::KvLayout AttentionPart::kv_layout(KvType type, std::size_t block_size) const {
  return std::visit(
      [&](const auto& part) {
        if constexpr (requires { part.kv_layout(type, block_size); }) {
          return part.kv_layout(type, block_size);
        } else {
          return kernels::KvLayout{};
        }
      },
      part_);
}

std::size_t AttentionPart::state_floats() const {
  return std::visit(
      [](const auto& part) {
        if constexpr (requires { part.state_floats(); }) {
          return part.state_floats();
        } else {
          return std::size_t{0};
        }
      },
      part_);
}

std::vector<StatePart> AttentionPart::state_parts() const {
  return std::visit(
      [](const auto& part) {
        if constexpr (requires { part.state_parts(); }) {
          return part.state_parts();
        } else {
          return std::vector<StatePart>();
        }
      },
      part_);
}

FeedForwardPart::FeedForwardPart(WeightLoader& loader, const FeedForwardSpec& spec, std::size_t hidden_size,
                                 const BlockNames& names)
    : part_(load<decltype(part_)>(loader, spec, hidden_size, names)) {}

PartialSum FeedForwardPart::operator()(TensorView<const float> x, const StepContext& step) const {
  const TraceSpan span(step.tracer, Activity::feed_forward, x.rows());
  return std::visit([&](const auto& part) { return part(x, step); }, part_);
}

const TokenShift* FeedForwardPart::token_shift() const {
  const auto* const mlp = std::get_if<PlainMlp>(&part_);
  return mlp != nullptr ? mlp->token_shift() : nullptr;
}

std::size_t FeedForwardPart::state_floats() const {
  return token_shift() != nullptr ? token_shift()->state_floats() : 0;
}

std::vector<StatePart::Rows> FeedForwardPart::state_rows() const {
  if (token_shift() == nullptr) return {};
  return {token_shift()->state_rows()};
}

std::optional<CrossAttention> load_cross_attention(WeightLoader& loader, const BlockSpec& spec,
                                                   std::size_t hidden_size, const BlockNames& names) {
  if (!spec.cross_attention) return std::nullopt;
  return CrossAttention(loader, *spec.cross_attention, hidden_size, names.cross_attention);
}

std::optional<Norm> load_if_present(WeightLoader& loader, const std::string& name, std::size_t hidden_size,
                                    const std::optional<NormSpec>& spec) {
  if (!spec) return std::nullopt;
  return Norm(loader, name, hidden_size, *spec);
}

}  // namespace tp
