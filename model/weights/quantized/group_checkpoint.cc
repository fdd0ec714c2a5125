#include "model/weights/quantized/group_checkpoint.h"

#include "model/files/printable.h"
#include "model/weights/source/slice_check.h"
#include "parallel/machine/hash.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp {

std::string description_of(const StoredGroups& weight, GroupQuantization::Method method) {
  if (weight.layout == StoredGroups::Layout::mxfp4) return "MXFP4";
  if (weight.layout == StoredGroups::Layout::nvfp4) return "NVFP4";
  const StoredScales& scales = weight.groups;
  if (weight.layout == StoredGroups::Layout::nf4)
    return fmt::format("bitsandbytes nf4, groups of {}", scales.column_block);
  const std::string elements =
      weight.is_e4m3 ? "F8_E4M3" : fmt::format("{} int{}", name_of(method), weight.bits);
  if (scales.column_block == 0) return elements + ", act-order";
  const bool has_whole_rows = scales.column_block >= weight.shape.columns;
  if (has_whole_rows && scales.row_block >= weight.shape.rows && scales.row_block > 1)
    return elements + ", one scale";
  if (scales.row_block > 1)
    return fmt::format("{}, blocks of {} x {}", elements, scales.row_block, scales.column_block);
  if (has_whole_rows) return elements + ", a group a row";
  return fmt::format("{}, groups of {}", elements, scales.column_block);
}
GroupCheckpoint::GroupCheckpoint(std::unique_ptr<SafetensorsCheckpoint> plain, GroupQuantization quantization)
    : plain_(std::move(plain)),
      quantization_(quantization),
      found_(find_quantized_matrices(*plain_, quantization)) {}

bool GroupCheckpoint::has_fp8(const SafetensorsCheckpoint& plain) {
  return std::ranges::any_of(plain.names(), [&](const std::string& name) {
    return plain.find_raw(name)->tensor.type.name == "F8_E4M3";
  });
}

const QuantizedMatrix* GroupCheckpoint::find(const std::string& name) const {
  const auto found = found_.by_name.find(name);
  return found == found_.by_name.end() ? nullptr : &found->second;
}

const QuantizedMatrix& GroupCheckpoint::find(const std::string& name, MatrixShape shape,
                                             const std::string& reason) const {
  const QuantizedMatrix& matrix = *find(name);
  const MatrixShape stored = matrix.groups.shape;
  require<CheckpointError>(
      stored == shape,
      "{}: {} holds [{}, {}], expected [{}, {}]{}; config.json and the weights must be of the same model",
      plain_->find_raw(matrix.stored)->file, printable(matrix.stored), stored.rows, stored.columns,
      shape.rows, shape.columns, reason.empty() ? "" : fmt::format(" ({})", reason));
  return matrix;
}

bool GroupCheckpoint::contains(const std::string& name) const {
  return find(name) != nullptr || plain_->contains(name);
}

std::vector<std::string> GroupCheckpoint::names() const {
  std::set<std::string> result;
  for (const std::string& name : plain_->names()) {
    if (!found_.parts.contains(name)) result.insert(name);
  }
  for (const auto& [name, matrix] : found_.by_name) result.insert(name);
  return {result.begin(), result.end()};
}

DType GroupCheckpoint::dtype(const std::string& name) const {
  return find(name) != nullptr ? DType::f32 : plain_->dtype(name);
}

std::optional<WeightType> GroupCheckpoint::group_type(const std::string& name, Range columns) const {
  const QuantizedMatrix* const matrix = find(name);
  if (matrix == nullptr) return plain_->group_type(name, columns);
  return matrix->type;
}

void GroupCheckpoint::expect(const std::string& name, MatrixShape shape, const std::string& reason) const {
  if (find(name) == nullptr) return plain_->expect(name, shape, reason);
  find(name, shape, reason);
}

void GroupCheckpoint::fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
                            Sharded sharded) const {
  const QuantizedMatrix* const matrix = find(name);
  if (matrix == nullptr) return plain_->fetch(name, shape, slices, sharded);
  const StoredGroups& groups = matrix->groups;
  std::vector<TensorSlice> stored;
  for (const TensorSlice& slice : slices) stored.push_back(groups.stored_slice(slice));
  const bool is_transposed =
      groups.layout == StoredGroups::Layout::awq || groups.layout == StoredGroups::Layout::gptq;
  const Sharded other = sharded == Sharded::rows ? Sharded::columns : Sharded::rows;
  plain_->fetch(matrix->stored, groups.stored_shape(), stored, is_transposed ? other : sharded);
  for (const std::string& part : matrix->shared) plain_->will_need(part);
}

void GroupCheckpoint::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                           TensorView<float> out) const {
  if (find(name) == nullptr) return plain_->read(name, shape, slice, out);
  const QuantizedMatrix& matrix = find(name, shape, "");
  check_slice(name, shape, slice, out);
  matrix.groups.read(place_of(matrix, slice), slice, out);
  count(matrix, slice);
}

RowsInMemory GroupCheckpoint::place_of(const QuantizedMatrix& matrix, const TensorSlice& slice) const {
  return plain_->rows_in_memory(matrix.stored, matrix.groups.stored_shape(),
                                matrix.groups.stored_slice(slice));
}

std::optional<StoredRows> GroupCheckpoint::stored_rows(const std::string& name, MatrixShape shape,
                                                       const TensorSlice& slice) const {
  if (find(name) == nullptr) return plain_->stored_rows(name, shape, slice);
  return std::nullopt;
}

std::optional<MappedRows> GroupCheckpoint::mapped_rows(const std::string& name, MatrixShape shape) const {
  if (find(name) == nullptr) return plain_->mapped_rows(name, shape);
  const QuantizedMatrix& matrix = find(name, shape, "");
  if (!matrix.groups.is_e4m3) return std::nullopt;
  const std::size_t scale_rows = matrix.groups.groups.row_block;
  MappedRows::Part scales =
      plain_->mapped_part(matrix.shared.front(), (shape.rows + scale_rows - 1) / scale_rows);
  scales.rows = scale_rows;
  count(matrix, {});
  plain_->count_shared(matrix.stored);
  const auto read = [groups = matrix.groups, data = plain_->find_raw(matrix.stored)->data](std::size_t row,
                                                                                           float* out) {
    const std::size_t columns = groups.shape.columns;
    groups.read(RowsInMemory{data + row * columns, columns},
                TensorSlice::of_rows(groups.shape, {row, row + 1}), TensorView<float>(out, 1, columns));
  };
  return MappedRows(shape.rows, {plain_->mapped_part(matrix.stored, shape.rows), std::move(scales)}, read);
}

void GroupCheckpoint::read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                     const kernels::QuantizedRows& out) const {
  if (find(name) == nullptr) return plain_->read_quantized(name, shape, slice, out);
  const QuantizedMatrix& matrix = find(name, shape, "");
  matrix.groups.read(place_of(matrix, slice), slice, out);
  count(matrix, slice);
}

void GroupCheckpoint::read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                  const kernels::ScaledRows& out) const {
  if (find(name) == nullptr) return plain_->read_scaled(name, shape, slice, out);
  const QuantizedMatrix& matrix = find(name, shape, "");
  matrix.groups.read(place_of(matrix, slice), slice, out);
  count(matrix, slice);
}

StoredScales GroupCheckpoint::scales_of(const std::string& name) const {
  const QuantizedMatrix* const matrix = find(name);
  return matrix == nullptr ? plain_->scales_of(name) : matrix->groups.groups;
}

// Slices may share scales and zero points, so these count as read completely.
void GroupCheckpoint::count(const QuantizedMatrix& matrix, const TensorSlice& slice) const {
  plain_->count_raw(matrix.stored, slice.size() * matrix.groups.bits / 8);
  for (const std::string& part : matrix.shared) plain_->count_shared(part);
}

std::vector<TypeUse> GroupCheckpoint::types() const {
  TypeUses uses;
  for (const std::string& name : plain_->names()) {
    if (!found_.parts.contains(name)) uses.add(plain_->type_use(name));
  }
  for (const auto& [name, matrix] : found_.by_name) {
    uses.add({.type = description_of(matrix.groups, quantization_.method),
              .tensors = 1,
              .elements = matrix.groups.shape.size(),
              .held_as = matrix.type,
              .exactly = true});
  }
  return uses.sorted();
}

// Equal tensors have different values in another format.
std::uint64_t GroupCheckpoint::of_quantization(std::uint64_t hash) const {
  for (const std::uint64_t number :
       {static_cast<std::uint64_t>(quantization_.method) + 1, std::uint64_t{quantization_.bits},
        std::uint64_t{quantization_.zero_points_less_one}, std::uint64_t{quantization_.block_rows},
        std::uint64_t{quantization_.block_columns}})
    hash = mixed(hash ^ number);
  return hash;
}

void GroupCheckpoint::done_with(const std::string& name) const {
  const QuantizedMatrix* const matrix = find(name);
  if (matrix == nullptr) return plain_->done_with(name);
  plain_->done_with(matrix->stored);
  for (const std::string& part : matrix->shared) plain_->done_with(part);
}

}  // namespace tp
