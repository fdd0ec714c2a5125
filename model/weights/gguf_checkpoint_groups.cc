// Reads elements of GGUF models unchanged, with the scales of their groups, and rows that stay in the files.
#include "model/weights/gguf/gguf_dequantize.h"
#include "model/weights/gguf/gguf_encoded_rows.h"
#include "model/weights/gguf/gguf_factor.h"
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

// Types without a type of the same values in memory are rounded while they are loaded, so they are not
// mapped.
std::optional<MappedRows> GgufCheckpoint::mapped_rows(const std::string& name, MatrixShape shape) const {
  const Matrix matrix = find(name, shape, "");
  const GgufPlace& place = matrix.place;
  const bool keeps_values = plain_type(matrix.type()) || group_type(name, {0, shape.columns});
  const bool keeps_rows = !matrix.split && !place.is_transposed && place.rows.keeps_places() &&
                          place.columns.keeps_places() && place.keeps_values();
  if (!keeps_values || !keeps_rows || matrix.rows().rows != shape.rows) return std::nullopt;
  count_read(*matrix.entry, 0);
  const FileRows rows = matrix.rows();
  const auto read = [type = matrix.type(), data = matrix.row(0), bytes = rows.row_bytes,
                     columns = shape.columns, factor = matrix.factor](std::size_t row, float* out) {
    dequantize(type, data + row * bytes, {0, columns}, factor, out);
  };
  return MappedRows(shape.rows, {{matrix.entry->file.shared_from_this(), rows.begin, rows.row_bytes}}, read);
}

}  // namespace tp
