#include "model/block_parts.h"

namespace tp {
namespace {

// Which class computes what a spec describes.
template <class Spec>
struct PartOf;
template <>
struct PartOf<AttentionSpec> {
  using Part = Attention;
};
template <>
struct PartOf<LatentAttentionSpec> {
  using Part = LatentAttention;
};
template <>
struct PartOf<GatedMlpSpec> {
  using Part = GatedMlp;
};
template <>
struct PartOf<PlainMlpSpec> {
  using Part = PlainMlp;
};
template <>
struct PartOf<MixtureOfExpertsSpec> {
  using Part = MixtureOfExperts;
};

template <class AnyPart, class AnySpec>
AnyPart load(WeightLoader& loader, const AnySpec& spec, std::size_t hidden_size, const BlockNames& names) {
  return std::visit(
      [&]<class Spec>(const Spec& part) -> AnyPart {
        return typename PartOf<Spec>::Part(loader, part, hidden_size, names);
      },
      spec);
}

}  // namespace

AttentionPart load_attention(WeightLoader& loader, const AttentionPartSpec& spec, std::size_t hidden_size,
                             const BlockNames& names) {
  return load<AttentionPart>(loader, spec, hidden_size, names);
}

FeedForwardPart load_feed_forward(WeightLoader& loader, const FeedForwardSpec& spec, std::size_t hidden_size,
                                  const BlockNames& names) {
  return load<FeedForwardPart>(loader, spec, hidden_size, names);
}

std::optional<Norm> load_if_present(WeightLoader& loader, const std::string& name, std::size_t hidden_size,
                                    const std::optional<NormSpec>& spec) {
  if (!spec) return std::nullopt;
  return Norm(loader, name, hidden_size, *spec);
}

}  // namespace tp
