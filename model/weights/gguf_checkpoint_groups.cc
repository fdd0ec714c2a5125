// Reads elements of GGUF models unchanged, with the scales of their groups.
#include "model/weights/gguf/gguf_dequantize.h"
#include "model/weights/gguf/gguf_encoded_rows.h"
#include "model/weights/gguf_checkpoint.h"

namespace tp {

void GgufCheckpoint::read_groups(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                 const kernels::GroupedRows& out) const {
  const Matrix matrix = find(name, shape, "");
  constexpr std::size_t kGroup = kernels::PackedLayout::kGroup;
  for (const GgufOrder::Run& run : matrix.place.columns.runs(slice.columns)) {
    const Columns stored = columns_of(name, matrix, run.stored);
    const std::size_t begin = run.begin - slice.columns.begin;
    for (std::size_t i = 0; i < slice.rows.size(); ++i) {
      const std::size_t row = matrix.place.rows.stored(slice.rows.begin + i);
      tp::read_groups(matrix.type(), stored.row(row), stored.columns, out.elements.row(i) + begin,
                      out.scales.row(i) + begin / kGroup);
    }
  }
  count_read(matrix, slice.rows.size(), slice.columns);
}

void GgufCheckpoint::read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                 const kernels::ScaledRows& out) const {
  const Matrix matrix = find(name, shape, "");
  const Columns stored = columns_of(name, matrix, slice.columns);
  for (std::size_t i = 0; i < slice.rows.size(); ++i) {
    const std::size_t row = matrix.place.rows.stored(slice.rows.begin + i);
    read_encoded_row(matrix.type(), stored.row(row), stored.columns, out.rows_from(i, 1));
  }
  count_read(matrix, slice.rows.size(), slice.columns);
}

StoredScales GgufCheckpoint::scales_of(const std::string& name) const {
  return scales_of_encoded_row(find(name).type());
}

}  // namespace tp
