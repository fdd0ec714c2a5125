#include "model/layers/axial_positions.h"

namespace tp {
namespace {

Buffer<float> load_table(WeightLoader& loader, const std::string& name, MatrixShape shape) {
  return loader.whole_weight(
      {name, shape, "axial_pos_shape", "axial_pos_embds_dim", false, {.matrices = 1, .index = 0}});
}

}  // namespace

AxialPositions::AxialPositions(WeightLoader& loader, const std::string& name, const AxialPositionsSpec& spec)
    : spec_(spec),
      rows_(load_table(loader, name + "0", {spec.rows, spec.row_size})),
      columns_(load_table(loader, name + "1", {spec.columns, spec.column_size})) {}

void AxialPositions::add(std::size_t position, float* out) const {
  const float* const row = rows_.data() + position / spec_.columns * spec_.row_size;
  const float* const column = columns_.data() + position % spec_.columns * spec_.column_size;
  for (std::size_t i = 0; i < spec_.row_size; ++i) out[i] += row[i];
  for (std::size_t i = 0; i < spec_.column_size; ++i) out[spec_.row_size + i] += column[i];
}

}  // namespace tp
