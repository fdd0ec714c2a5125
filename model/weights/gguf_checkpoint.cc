#include "model/weights/gguf_checkpoint.h"

#include "model/files/printable.h"
#include "model/files/similar_name.h"
#include "model/weights/gguf/gguf_dequantize.h"
#include "model/weights/gguf/gguf_encoded_rows.h"
#include "model/weights/gguf/gguf_factor.h"
#include "model/weights/gguf/gguf_integers.h"
#include "model/weights/gguf/gguf_quantized.h"
#include "model/weights/source/slice_check.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/ranges.h>

namespace tp {
namespace {

// The type that keeps the elements and scales of a stored type unchanged, if there is one.
std::optional<WeightType> held_groups(const GgufType& type) {
  if (type.name == "Q4_0") return WeightType::int4;
  if (type.name == "Q8_0") return WeightType::int8;
  if (is_encoded_row(type)) return WeightType::f8_e4m3;
  return quantized_type(type);
}

// Whether the elements of each group are also adjacent in the checkpoint. Reordering heads splits
// super-blocks, which are longer than a head.
bool keeps_groups(const GgufType& type, const GgufOrder& columns) {
  constexpr std::size_t kGroup = kernels::PackedLayout::kGroup;
  if (columns.keeps_places()) return true;
  return has_groups(type) && columns.head_dim % kGroup == 0 && columns.first % kGroup == 0;
}

// A rank's columns must begin and end at multiples of this.
std::size_t group_of(WeightType type) {
  const kernels::QuantFormat* const format = kernels::quant_format(type);
  return format == nullptr ? kernels::PackedLayout::kGroup : format->group;
}

// The bytes of a row whose blocks contain these elements.
Range blocks_of(const GgufType& type, Range elements) {
  const std::size_t width = type.block_elements;
  return {elements.begin / width * type.block_bytes, (elements.end + width - 1) / width * type.block_bytes};
}

// The elements that a partial read of a row needs: whole super-blocks for types that stay quantized in
// memory.
Range window_of(const GgufType& type, Range elements, std::size_t row_elements) {
  constexpr std::size_t kSuper = kernels::QuantizedRows::kColumns;
  if (!quantized_type(type)) return elements;
  return {elements.begin / kSuper * kSuper,
          std::min(row_elements, (elements.end + kSuper - 1) / kSuper * kSuper)};
}

// The file's columns that contain the checkpoint's `columns`: a few ranges, or one range that covers all of
// them.
std::vector<Range> fetched_ranges(const GgufOrder& order, Range columns) {
  constexpr std::size_t kFew = 4;  // a reader fetches at most this many ranges of a matrix
  std::vector<Range> ranges = order.stored_ranges(columns);
  if (ranges.size() > kFew) ranges = {{ranges.front().begin, ranges.back().end}};
  return ranges;
}

void restore(const GgufPlace& place, TensorView<float> out) {
  if (place.keeps_values()) return;
  for (std::size_t row = 0; row < out.rows(); ++row) {
    for (std::size_t column = 0; column < out.columns(); ++column)
      out(row, column) = place.restored(out(row, column));
  }
}

}  // namespace

std::unique_ptr<GgufCheckpoint> GgufCheckpoint::open(const std::filesystem::path& first) {
  return std::unique_ptr<GgufCheckpoint>(new GgufCheckpoint(first));
}

GgufCheckpoint::GgufCheckpoint(const std::filesystem::path& first)
    : files_(first), names_(ModelMetadata(files_)) {
  find_encoded_rows(files_);
  for (const auto* const entries : {&files_.tensors(), &files_.listed()}) {
    for (const auto& [name, entry] : *entries) {
      if (matrix_of_factors(files_, entry.tensor) == nullptr) was_read_[&entry] = false;
    }
  }
}

bool GgufCheckpoint::contains(const std::string& name) const {
  const std::optional<GgufPlace> place = names_.find(name);
  return place && place->shares.empty() &&
         (find_gguf_rows(files_, place->tensor).entry != nullptr ||
          GgufSplitKvB::find(files_, place->tensor));
}

std::string GgufCheckpoint::stored_name(const std::string& name) const {
  const std::optional<GgufPlace> place = names_.find(name);
  if (!place) return names_.in_file(name);
  const GgufRows found = find_gguf_rows(files_, place->tensor);
  const std::string tensor = found.entry != nullptr ? found.entry->tensor.name : place->tensor;
  return place->expert ? fmt::format("{} (expert {})", tensor, *place->expert) : tensor;
}

std::vector<std::string> GgufCheckpoint::names() const {
  std::set<std::string> result;
  for (const auto* const entries : {&files_.tensors(), &files_.listed()}) {
    for (const auto& [name, entry] : *entries) {
      if (matrix_of_factors(files_, entry.tensor) != nullptr) continue;
      for (std::string& in_checkpoint : names_.in_checkpoint(entry.tensor))
        result.insert(std::move(in_checkpoint));
    }
  }
  return {result.begin(), result.end()};
}

// A tensor of the checkpoint counts as read if any of its tensors in the file was read.
std::vector<std::string> GgufCheckpoint::unread() const {
  std::set<std::string> unread;
  std::set<std::string> read;
  for (const auto& [entry, entry_was_read] : was_read_) {
    if (entry->tensor.bytes.empty()) continue;
    std::set<std::string>& names = entry_was_read.load(std::memory_order_relaxed) ? read : unread;
    for (std::string& name : names_.in_checkpoint(entry->tensor)) names.insert(std::move(name));
  }
  std::vector<std::string> result;
  std::ranges::set_difference(unread, read, std::back_inserter(result));
  return result;
}

DType GgufCheckpoint::dtype(const std::string& name) const {
  return plain_type(find(name).type()).value_or(DType::bf16);
}

std::optional<WeightType> GgufCheckpoint::group_type(const std::string& name, Range columns) const {
  const Matrix matrix = find(name);
  const std::optional<WeightType> held = held_groups(matrix.type());
  if (!held || matrix.place.is_transposed || matrix.split ||
      !keeps_groups(matrix.type(), matrix.place.columns))
    return std::nullopt;
  const std::size_t group = group_of(*held);
  if (columns.begin % group != 0 || columns.end % group != 0) return std::nullopt;
  return held;
}

// Whether the tensor's rows are also rows of the matrix in the checkpoint. GPT-2's rows are columns,
// DeepSeek's kv_b is in two parts, and super-blocks of Qwen3.5's out_proj contain columns of several heads.
bool GgufCheckpoint::is_stored_by_rows(const GgufTensor& tensor) const {
  for (const std::string& name : names_.in_checkpoint(tensor)) {
    const std::optional<GgufPlace> place = names_.find(name);
    if (!place) continue;
    if (place->is_transposed || find_gguf_rows(files_, place->tensor).entry == nullptr) return false;
    if (!keeps_groups(tensor.type, place->columns)) return false;
  }
  return true;
}

std::vector<TypeUse> GgufCheckpoint::types() const {
  TypeUses uses;
  for (const auto& [name, entry] : files_.tensors()) {
    const GgufType& type = entry.tensor.type;
    const std::optional<DType> plain = plain_type(type);
    const std::optional<WeightType> held = is_stored_by_rows(entry.tensor) ? held_groups(type) : std::nullopt;
    TypeUse use{.type = std::string(type.name),
                .tensors = 1,
                .elements = entry.tensor.bytes.size() / type.block_bytes * type.block_elements,
                .held_as = std::nullopt,
                .exactly = plain || held};
    if (type.readable) use.held_as = held ? *held : lossless_type(plain.value_or(DType::bf16));
    uses.add(std::move(use));
  }
  return uses.sorted();
}

void GgufCheckpoint::expect(const std::string& name, MatrixShape shape, const std::string& reason) const {
  find(name, shape, reason);
}

void GgufCheckpoint::read_exactly(const ColumnReader& columns) {
  columns_ = &columns;
  files_.stop_reading_ahead();
}

void GgufCheckpoint::fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
                           Sharded sharded) const {
  if (columns_ == nullptr) return;
  const Matrix matrix = find(name, shape, "");
  if (matrix.split) {
    for (const TensorSlice& slice : slices) matrix.split->will_need(slice.rows);
    return;
  }
  const FileRows rows = matrix.rows();
  const bool is_transposed = matrix.place.is_transposed;
  if (sharded == (is_transposed ? Sharded::columns : Sharded::rows) || shape.rows == 1) {
    for (const TensorSlice& slice : slices) {
      const Range wanted = is_transposed ? slice.columns : slice.rows;
      for (const Range& range :
           shape.rows == 1 ? std::vector{wanted} : matrix.place.rows.stored_ranges(wanted))
        matrix.entry->file.will_need(rows.bytes_of(range));
    }
    return;
  }
  std::vector<Range> wanted;
  for (const TensorSlice& slice : slices) {
    const Range elements = is_transposed ? slice.rows : slice.columns;
    for (const Range& range : fetched_ranges(matrix.place.columns, elements))
      wanted.push_back(
          blocks_of(matrix.type(), window_of(matrix.type(), range, matrix.entry->tensor.shape.back())));
  }
  fetched_.add(name, {0, columns_->fetch(rows, wanted)});
}

GgufCheckpoint::Columns GgufCheckpoint::columns_of(const std::string& name, const Matrix& matrix,
                                                   Range columns) const {
  const Range blocks = blocks_of(matrix.type(), columns);
  if (const FetchedRows* const fetched = fetched_.find(name)) {
    if (const std::byte* const first = fetched->columns.find(blocks)) {
      const std::size_t skipped = blocks.begin / matrix.type().block_bytes * matrix.type().block_elements;
      return {first, fetched->columns.stride(), {columns.begin - skipped, columns.end - skipped}};
    }
  }
  return {matrix.row(0), matrix.rows().row_bytes, columns};
}

void GgufCheckpoint::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                          TensorView<float> out) const {
  const Matrix matrix = find(name, shape, "");
  check_slice(name, shape, slice, out);
  if (matrix.split) {
    count_read(*matrix.split->keys, matrix.split->read(slice, out));
    count_read(*matrix.split->values, 0);
  } else if (matrix.place.is_transposed) {
    read_transposed(matrix, columns_of(name, matrix, slice.rows), slice, out);
  } else if (shape.rows == 1) {
    read_vector(matrix, slice.columns, out);
  } else {
    for (const GgufOrder::Run& run : matrix.place.columns.runs(slice.columns))
      read_rows(matrix, columns_of(name, matrix, run.stored), {slice.rows, run.stored},
                out.columns_from(run.begin - slice.columns.begin, run.stored.size()));
  }
}

void GgufCheckpoint::read_rows(const Matrix& matrix, const Columns& stored, const TensorSlice& slice,
                               TensorView<float> out) const {
  for (std::size_t i = 0; i < slice.rows.size(); ++i) {
    const std::size_t row = matrix.place.rows.stored(slice.rows.begin + i);
    dequantize(matrix.type(), stored.row(row), stored.columns, matrix.factor, out.row(i));
  }
  restore(matrix.place, out);
  count_read(matrix, slice.rows.size(), slice.columns);
}

// The slice's columns are rows in the file.
void GgufCheckpoint::read_transposed(const Matrix& matrix, const Columns& stored, const TensorSlice& slice,
                                     TensorView<float> out) const {
  std::vector<float> row_of_file(slice.rows.size());
  for (std::size_t column = 0; column < slice.columns.size(); ++column) {
    dequantize(matrix.type(), stored.row(slice.columns.begin + column), stored.columns, matrix.factor,
               row_of_file.data());
    for (std::size_t row = 0; row < row_of_file.size(); ++row) out(row, column) = row_of_file[row];
  }
  count_read(matrix, slice.columns.size(), slice.rows);
}

// A bias has an element for each row of its layer's weight, in the same order.
void GgufCheckpoint::read_vector(const Matrix& matrix, Range columns, TensorView<float> out) const {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::size_t stored = matrix.place.rows.stored(columns.begin + i);
    dequantize(matrix.type(), matrix.row(0), {stored, stored + 1}, matrix.factor, out.row(0) + i);
  }
  restore(matrix.place, out);
  count_read(matrix, 1, columns);
}

void GgufCheckpoint::read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                    const kernels::QuantizedRows& out) const {
  const Matrix matrix = find(name, shape, "");
  const Range window = window_of(matrix.type(), slice.columns, shape.columns);
  const Columns stored = columns_of(name, matrix, window);
  const std::size_t skipped = window.begin - stored.columns.begin;
  const Range columns{slice.columns.begin - skipped, slice.columns.end - skipped};
  for (std::size_t i = 0; i < slice.rows.size(); ++i) {
    const std::size_t row = matrix.place.rows.stored(slice.rows.begin + i);
    tp::read_quantized(matrix.type(), stored.row(row), shape.columns - skipped, columns, out, i);
  }
  if (matrix.factor != 1.0F) set_factor(matrix.factor, out);
  count_read(matrix, slice.rows.size(), slice.columns);
}

// The ids of drafters' rows are not among the family's tensors. Files store tokens, checkpoints the
// differences from the rows' numbers.
std::vector<std::int64_t> GgufCheckpoint::whole_numbers(const std::string& name, MatrixShape shape,
                                                        const std::string& reason) const {
  const std::optional<GgufPlace> place = names_.find(name);
  const std::string& tensor = place ? place->tensor : name;
  const GgufFiles::Entry* const entry = files_.find(tensor);
  if (entry == nullptr) refuse_missing(tensor);
  std::vector<std::int64_t> numbers = gguf_integers(*entry, shape, reason);
  for (std::size_t row = 0; !place && row < numbers.size(); ++row)
    numbers[row] -= static_cast<std::int64_t>(row);
  count_read(*entry, entry->tensor.bytes.size());
  return numbers;
}

void GgufCheckpoint::count_read(const Matrix& matrix, std::size_t rows, Range columns) const {
  count_read(*matrix.entry, rows * blocks_of(matrix.type(), columns).size());
}

void GgufCheckpoint::count_read(const GgufFiles::Entry& entry, std::size_t bytes) const {
  bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
  was_read_.at(&entry).store(true, std::memory_order_relaxed);
}

void GgufCheckpoint::done_with(const std::string& name) const {
  const Matrix matrix = find(name);
  fetched_.remove(name);
  matrix.entry->file.advise_done(matrix.bytes);
  if (matrix.split) matrix.split->values->file.advise_done(matrix.split->values->tensor.bytes);
}

void GgufCheckpoint::refuse_missing(const std::string& tensor) const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : files_.tensors()) all.push_back(name);
  for (const auto& [name, entry] : files_.listed()) all.push_back(name);
  const std::string similar = similar_name(tensor, all);
  const std::string hint =
      similar.empty() ? "" : fmt::format(" (the most similar one is {})", printable(similar));
  throw_error<CheckpointError>(
      "{}: there is no tensor {}{}; the metadata and the tensors must be of the same model", files_.name(),
      printable(tensor), hint);
}

GgufCheckpoint::Matrix GgufCheckpoint::find(const std::string& name) const {
  const std::optional<GgufPlace> place = names_.find(name);
  if (!place) refuse_missing(names_.in_file(name));
  if (const GgufRows rows = find_gguf_rows(files_, place->tensor); rows.entry != nullptr)
    return find_whole(*place, rows);
  const std::optional<GgufSplitKvB> split = GgufSplitKvB::find(files_, place->tensor);
  if (!split) refuse_missing(place->tensor);
  require_readable(*split->keys);
  require_readable(*split->values);
  return {*place, split->keys, split->shape(), split->keys->tensor.bytes, split};
}

GgufCheckpoint::Matrix GgufCheckpoint::find_whole(const GgufPlace& place, const GgufRows& part) const {
  const GgufFiles::Entry& entry = *part.entry;
  require_readable(entry);
  const GgufTensor& tensor = entry.tensor;
  std::vector<std::size_t> stored = tensor.shape;
  if (!part.is_whole()) stored.front() = part.rows.size();
  const std::optional<MatrixShape> shape = place.matrix_shape(stored);
  if (!shape) {
    throw_error<CheckpointError>("{}: {} is {}, expected {}; convert the checkpoint to GGUF again",
                                 entry.file.name(), printable(tensor.name), printable(tensor.shape),
                                 place.expert     ? fmt::format("a stack with an expert {}", *place.expert)
                                 : place.is_stack ? "a stack with a matrix for every expert"
                                                  : "a matrix or a vector");
  }
  const bool rows_fit = place.rows.fits(stored.size() == 1 ? shape->columns : shape->rows);
  if (!rows_fit || !place.columns.fits(shape->columns)) {
    throw_error<CheckpointError>(
        "{}: {} is {}, expected whole heads of {} {}; convert the checkpoint to GGUF "
        "again",
        entry.file.name(), printable(tensor.name), printable(tensor.shape),
        rows_fit ? place.columns.head_dim : place.rows.head_dim, rows_fit ? "columns" : "rows");
  }
  Range bytes = tensor.bytes;
  if (place.expert) {
    const std::size_t size = bytes.size() / tensor.shape.front();
    bytes = {bytes.begin + *place.expert * size, bytes.begin + (*place.expert + 1) * size};
  }
  if (!part.is_whole()) {
    const std::size_t size = bytes.size() / tensor.shape.front();
    bytes = {bytes.begin + part.rows.begin * size, bytes.begin + part.rows.end * size};
  }
  return {place, &entry, *shape, bytes, {}, factor_of(files_, tensor, place.expert)};
}

GgufCheckpoint::Matrix GgufCheckpoint::find(const std::string& name, MatrixShape shape,
                                            const std::string& reason) const {
  const Matrix matrix = find(name);
  if (matrix.shape != shape) {
    const std::string because = reason.empty() ? "" : fmt::format(" ({})", reason);
    const std::string& tensor = matrix.split ? matrix.place.tensor : matrix.entry->tensor.name;
    throw_error<CheckpointError>("{}: {}{} is [{}, {}], expected [{}, {}]{}", matrix.entry->file.name(),
                                 tensor == matrix.place.tensor ? "" : matrix.place.tensor + " in ",
                                 printable(tensor), matrix.shape.rows, matrix.shape.columns, shape.rows,
                                 shape.columns, because);
  }
  return matrix;
}

}  // namespace tp
