#include "model/weights/synthetic/configured_weights.h"

#include "model/weights/quantized/group_checkpoint.h"
#include "model/weights/quantized/quantized_matrices.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tp {

ConfiguredWeights::ConfiguredWeights(DType dtype, std::vector<QuantizedLayers> layers)
    : plain_(dtype), in_any_order_(WeightType::int4_scaled), layers_(std::move(layers)) {}

const QuantizedLayers* ConfiguredWeights::find(const std::string& name) const {
  const auto found = std::ranges::find_if(layers_, [&](const auto& layers) { return layers.include(name); });
  return found == layers_.end() ? nullptr : &*found;
}

std::optional<WeightType> ConfiguredWeights::group_type(const std::string& name, Range /*columns*/) const {
  const QuantizedLayers* const layers = find(name);
  return layers == nullptr ? std::nullopt : std::optional(type_of(layers->stored(shapes_.at(name))));
}

void ConfiguredWeights::expect(const std::string& name, MatrixShape shape, const std::string& reason) const {
  shapes_[name] = shape;
  in_any_order_.expect(name, shape, reason);
}

void ConfiguredWeights::read(const std::string&, MatrixShape, const TensorSlice&, TensorView<float>) const {
  throw std::logic_error("a config.json has no weights");
}

// A config does not tell the type of scales. Published tables have exponents of one byte.
std::optional<MappedRows> ConfiguredWeights::mapped_rows(const std::string& name, MatrixShape shape) const {
  const auto read = [](std::size_t, float*) { throw std::logic_error("a config.json has no weights"); };
  const QuantizedLayers* const layers = find(name);
  if (layers == nullptr)
    return MappedRows(shape.rows, {{.bytes = shape.columns * size_of(dtype(name))}}, read);
  const StoredGroups stored = layers->stored(shape);
  if (!stored.is_e4m3) return std::nullopt;
  return MappedRows(
      shape.rows,
      {{.bytes = shape.columns}, {.bytes = stored.groups.groups, .rows = stored.groups.row_block}}, read);
}

StoredScales ConfiguredWeights::scales_of(const std::string& name) const {
  const StoredScales scales = find(name)->stored(shapes_.at(name)).groups;
  return scales.column_block == 0 ? in_any_order_.scales_of(name) : scales;
}

std::vector<TypeUse> ConfiguredWeights::types() const {
  constexpr MatrixShape kSquare{4096, 4096};
  std::vector<TypeUse> uses;
  for (const QuantizedLayers& layers : layers_) {
    const StoredGroups weight = layers.stored(kSquare);
    uses.push_back({.type = description_of(weight, layers.method), .tensors = 1, .held_as = type_of(weight)});
  }
  return uses;
}

}  // namespace tp
