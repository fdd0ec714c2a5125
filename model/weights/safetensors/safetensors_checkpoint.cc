#include "model/weights/safetensors/safetensors_checkpoint.h"

#include "model/files/content_hash.h"
#include "model/files/printable.h"
#include "model/files/similar_name.h"
#include "model/weights/source/slice_check.h"
#include "model/weights/source/widen.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

namespace tp {
namespace {

// Most bytes of a copy, for which each thread keeps memory. The rows of a panel fit in any model, and most
// models' panels fit in a core's second-level cache.
constexpr std::size_t kMaxCopied = std::size_t{4} << 20;
// Fewest bytes of a row to copy. For shorter rows (in transposed matrices), a system call for each row takes
// longer than mapping pages.
constexpr std::size_t kMinCopied = 256;

// Whether a tensor is a matrix with this shape. A number is a vector of one element, a vector is a matrix of
// one row, and a stack of matrices is a matrix with the rows of all.
bool is_matrix(const std::vector<std::size_t>& stored, MatrixShape shape) {
  if (stored.size() < 2) return shape == MatrixShape{1, stored.empty() ? 1 : stored[0]};
  std::size_t rows = stored[0];
  for (std::size_t split = 1; split < stored.size(); rows *= stored[split++]) {
    const std::size_t columns = std::accumulate(stored.begin() + static_cast<std::ptrdiff_t>(split),
                                                stored.end(), std::size_t{1}, std::multiplies<>());
    if (shape == MatrixShape{rows, columns}) return true;
  }
  return false;
}

// An expected shape in the notation of the stored shape: a vector is [n], unless it is stored as a matrix.
std::string expected_shape(MatrixShape shape, const std::vector<std::size_t>& stored) {
  if (shape.rows == 1 && stored.size() < 2) return fmt::format("[{}]", shape.columns);
  if (stored.size() == 3 && stored[0] != 0 && shape.rows % stored[0] == 0)
    return fmt::format("[{}, {}, {}]", stored[0], shape.rows / stored[0], shape.columns);
  return fmt::format("[{}, {}]", shape.rows, shape.columns);
}

// The bytes of the slice's columns in a row.
Range bytes_of_columns(std::size_t element_bytes, const TensorSlice& slice) {
  return {slice.columns.begin * element_bytes, slice.columns.end * element_bytes};
}

}  // namespace

std::unique_ptr<SafetensorsCheckpoint> SafetensorsCheckpoint::open(const std::filesystem::path& directory) {
  return std::unique_ptr<SafetensorsCheckpoint>(
      new SafetensorsCheckpoint(directory, find_safetensors_files(directory)));
}

std::unique_ptr<SafetensorsCheckpoint> SafetensorsCheckpoint::open_file(const std::filesystem::path& file) {
  return std::unique_ptr<SafetensorsCheckpoint>(
      new SafetensorsCheckpoint(file.parent_path(), {.names = {file.filename().string()}, .file_of = {}}));
}

SafetensorsCheckpoint::SafetensorsCheckpoint(const std::filesystem::path& directory,
                                             const SafetensorsFiles& found)
    : directory_(directory) {
  for (const std::string& name : found.names) {
    files_.push_back(std::make_shared<MappedFile>(directory / name));
    add_file(*files_.back(), found.file_of);
  }
  check_index(found.file_of);
}

// If several files contain a tensor, the index decides which file counts. Later files may replace parts of
// earlier ones.
void SafetensorsCheckpoint::add_file(const MappedFile& file,
                                     const std::map<std::string, std::string>& file_of) {
  SafetensorsHeader header = parse_safetensors_header(file.bytes(), file.name());
  fingerprint_ = hash_of_header(file, header.size, fingerprint_);
  for (StoredTensor& tensor : header.tensors) {
    const std::string name = tensor.name;
    const auto place_in_index = file_of.find(name);
    if (place_in_index != file_of.end() && place_in_index->second != file.name()) continue;
    stored_bytes_ += tensor.bytes.size();
    const auto [place, is_new] = tensors_.try_emplace(name, std::move(tensor), file);
    if (!is_new) {
      throw_error<CheckpointError>(
          "{}: tensor {} is in {} too; remove the file that does not belong to the checkpoint", file.name(),
          printable(name), place->second.file.name());
    }
  }
}

void SafetensorsCheckpoint::check_index(const std::map<std::string, std::string>& file_of) const {
  for (const auto& [tensor, file] : file_of) {
    const auto found = tensors_.find(tensor);
    if (!(found != tensors_.end() && found->second.file.name() == file)) {
      throw_error<CheckpointError>(
          "{}: tensor {} is not in this file, where model.safetensors.index.json says it is; download "
          "the index and the files again",
          printable(file), printable(tensor));
    }
  }
}

bool SafetensorsCheckpoint::contains(const std::string& name) const { return tensors_.contains(name); }

std::vector<std::string> SafetensorsCheckpoint::names() const {
  std::vector<std::string> result;
  result.reserve(tensors_.size());
  for (const auto& [name, entry] : tensors_) result.push_back(name);
  return result;
}

DType SafetensorsCheckpoint::dtype(const std::string& name) const {
  const Entry& entry = find(name);
  if (entry.tensor.type.dtype) return *entry.tensor.type.dtype;
  throw_error<CheckpointError>(
      "{}: {} has the type {}, expected F32, F16, BF16, or F8_E4M3 with a tensor of scales ({}); "
      "convert the checkpoint to one of them",
      entry.file.name(), printable(name), entry.tensor.type.name, printable(name + "_scale_inv"));
}

void SafetensorsCheckpoint::expect(const std::string& name, MatrixShape shape,
                                   const std::string& reason) const {
  find_matrix(name, shape, reason);
  dtype(name);
}

void SafetensorsCheckpoint::read_exactly(const ColumnReader& columns) {
  columns_ = &columns;
  for (const std::shared_ptr<MappedFile>& file : files_) file->stop_reading_ahead();
}

void SafetensorsCheckpoint::fetch(const std::string& name, MatrixShape shape,
                                  std::span<const TensorSlice> slices, Sharded sharded) const {
  if (columns_ == nullptr) return;
  const Entry& entry = find_elements(name, shape);
  const FileRows rows = entry.rows(shape);
  if (sharded == Sharded::rows) {
    for (const TensorSlice& slice : slices) entry.file.will_need(rows.bytes_of(slice.rows));
    return;
  }
  // In a stack, slices are rows of one matrix, which is the same on every rank.
  Range some = slices.front().rows;
  std::vector<Range> wanted;
  for (const TensorSlice& slice : slices) {
    some = {std::min(some.begin, slice.rows.begin), std::max(some.end, slice.rows.end)};
    wanted.push_back(bytes_of_columns(entry.element_bytes(), slice));
  }
  const FileRows matrix{rows.file, rows.bytes_of(some).begin, some.size(), rows.row_bytes};
  fetched_.add(name, {some.begin, columns_->fetch(matrix, wanted)});
}

RowsInMemory SafetensorsCheckpoint::rows_in_memory(const std::string& name, MatrixShape shape,
                                                   const TensorSlice& slice) const {
  const Entry& entry = find_elements(name, shape);
  const Range bytes = bytes_of_columns(entry.element_bytes(), slice);
  if (const FetchedRows* const fetched = fetched_.find(entry.tensor.name)) {
    const FetchedColumns& columns = fetched->columns;
    if (const std::byte* const first = columns.find(bytes))
      return {first + (slice.rows.begin - fetched->first_row) * columns.stride(), columns.stride()};
  }
  const std::size_t row_bytes = entry.rows(shape).row_bytes;
  return {entry.data() + slice.rows.begin * row_bytes + bytes.begin, row_bytes};
}

bool SafetensorsCheckpoint::copies(const Entry& entry, const TensorSlice& slice) const {
  // After read_exactly, pages were requested one by one, or columns were fetched.
  if (columns_ != nullptr || slice.size() == 0) return false;
  const std::size_t row_bytes = slice.columns.size() * entry.element_bytes();
  return slice.rows.size() * row_bytes <= kMaxCopied && (slice.rows.size() == 1 || row_bytes >= kMinCopied);
}

RowsInMemory SafetensorsCheckpoint::copy_of(const Entry& entry, MatrixShape shape,
                                            const TensorSlice& slice) const {
  const FileRows file_rows = entry.rows(shape);
  const Range wanted = bytes_of_columns(entry.element_bytes(), slice);  // bytes of a row
  thread_local std::vector<std::byte> copy;
  const std::size_t size = slice.rows.size() * wanted.size();
  copy.resize(std::max(copy.size(), size));
  std::span<std::byte> rest = std::span(copy).first(size);
  std::size_t from = file_rows.bytes_of(slice.rows).begin + wanted.begin;
  if (wanted.size() == file_rows.row_bytes) {
    // Rows are contiguous, so that the kernel reads ahead by itself.
    entry.file.copy(from, rest, from + size);
  } else {
    for (; !rest.empty(); rest = rest.subspan(wanted.size()), from += file_rows.row_bytes)
      entry.file.copy(from, rest.first(wanted.size()), entry.tensor.bytes.end);
  }
  return {copy.data(), wanted.size()};
}

void SafetensorsCheckpoint::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                 TensorView<float> out) const {
  check_slice(name, shape, slice, out);
  const std::size_t row_bytes = slice.columns.size() * size_of(dtype(name));
  const std::size_t max = std::max<std::size_t>(1, kMaxCopied / std::max<std::size_t>(1, row_bytes));
  for (std::size_t first = 0; first < slice.rows.size(); first += max) {
    const std::size_t count = std::min(max, slice.rows.size() - first);
    const Range some{slice.rows.begin + first, slice.rows.begin + first + count};
    const StoredRows rows = stored_rows(name, shape, {some, slice.columns}).value();
    for (std::size_t i = 0; i < count; ++i)
      widen(rows.type, rows.data + i * rows.stride, rows.columns, out.row(first + i));
  }
}

std::optional<StoredRows> SafetensorsCheckpoint::stored_rows(const std::string& name, MatrixShape shape,
                                                             const TensorSlice& slice) const {
  const Entry& entry = find_matrix(name, shape, "");
  const DType type = dtype(name);
  check_slice(name, shape, slice, {nullptr, slice.rows.size(), slice.columns.size()});
  count_read(entry, slice.size() * size_of(type));
  const RowsInMemory place =
      copies(entry, slice) ? copy_of(entry, shape, slice) : rows_in_memory(name, shape, slice);
  return StoredRows{type, place.data, slice.rows.size(), slice.columns.size(), place.stride};
}

std::optional<MappedRows> SafetensorsCheckpoint::mapped_rows(const std::string& name,
                                                             MatrixShape shape) const {
  const Entry& entry = find_matrix(name, shape, "");
  count_shared(name);
  const auto read = [data = entry.data(), type = dtype(name), columns = shape.columns](std::size_t row,
                                                                                       float* out) {
    widen(type, data + row * columns * size_of(type), columns, out);
  };
  return MappedRows(shape.rows, {mapped_part(name, shape.rows)}, read);
}

MappedRows::Part SafetensorsCheckpoint::mapped_part(const std::string& name, std::size_t parts) const {
  const Entry& entry = find(name);
  return {.file = entry.file.shared_from_this(),
          .begin = entry.tensor.bytes.begin,
          .bytes = entry.tensor.bytes.size() / std::max<std::size_t>(1, parts)};
}

std::vector<std::int64_t> SafetensorsCheckpoint::whole_numbers(const std::string& name, MatrixShape shape,
                                                               const std::string& reason) const {
  const Entry& entry = find_matrix(name, shape, reason);
  const std::size_t size = shape.size();
  const bool is_long = entry.tensor.type.name == "I64";
  if (!is_long && entry.tensor.type.name != "I32") {
    throw_error<CheckpointError>("{}: {} has the type {}, expected I64 or I32; download the checkpoint again",
                                 entry.file.name(), printable(name), entry.tensor.type.name);
  }
  std::vector<std::int64_t> numbers(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::int32_t small = 0;
    if (is_long)
      std::memcpy(&numbers[i], entry.data() + i * sizeof(std::int64_t), sizeof(std::int64_t));
    else
      std::memcpy(&small, entry.data() + i * sizeof(small), sizeof(small));
    if (!is_long) numbers[i] = small;
  }
  count_read(entry, entry.tensor.bytes.size());
  return numbers;
}

void SafetensorsCheckpoint::count_read(const Entry& entry, std::size_t bytes) const {
  entry.bytes_read.fetch_add(bytes, std::memory_order_relaxed);
  bytes_read_.fetch_add(bytes, std::memory_order_relaxed);
}

std::vector<TypeUse> SafetensorsCheckpoint::types() const {
  TypeUses uses;
  for (const auto& [name, entry] : tensors_) uses.add(type_use(name));
  return uses.sorted();
}

TypeUse SafetensorsCheckpoint::type_use(const std::string& name) const {
  const Entry& entry = find(name);
  const StoredType& type = entry.tensor.type;
  TypeUse use{.type = std::string(type.name),
              .tensors = 1,
              .elements = entry.tensor.bytes.size() * 8 / type.bits,
              .held_as = std::nullopt,
              .exactly = true};
  if (type.dtype) use.held_as = lossless_type(*type.dtype);
  return use;
}

std::optional<SafetensorsCheckpoint::Raw> SafetensorsCheckpoint::find_raw(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  return Raw{found->second.tensor, found->second.file.name(), found->second.data()};
}

void SafetensorsCheckpoint::will_need(const std::string& name) const {
  if (columns_ == nullptr) return;
  const Entry& entry = find(name);
  entry.file.will_need(entry.tensor.bytes);
}

void SafetensorsCheckpoint::count_raw(const std::string& name, std::size_t bytes) const {
  count_read(find(name), bytes);
}

void SafetensorsCheckpoint::count_shared(const std::string& name) const {
  const Entry& entry = find(name);
  entry.bytes_read.store(entry.tensor.bytes.size(), std::memory_order_relaxed);
}

std::size_t SafetensorsCheckpoint::stored_bytes() const { return stored_bytes_; }

std::size_t SafetensorsCheckpoint::bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

std::vector<const MappedFile*> SafetensorsCheckpoint::mapped_files() const {
  std::vector<const MappedFile*> files;
  for (const std::shared_ptr<MappedFile>& file : files_) files.push_back(file.get());
  return files;
}

void SafetensorsCheckpoint::done_with(const std::string& name) const {
  const Entry& entry = find(name);
  fetched_.remove(name);
  entry.file.advise_done(entry.tensor.bytes);
}

std::vector<std::string> SafetensorsCheckpoint::unread() const {
  std::vector<std::string> result;
  for (const auto& [name, entry] : tensors_) {
    if (entry.bytes_read.load(std::memory_order_relaxed) == 0 && !entry.tensor.bytes.empty())
      result.push_back(name);
  }
  return result;
}

const SafetensorsCheckpoint::Entry& SafetensorsCheckpoint::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  const std::string similar = similar_name(name, names());
  const std::string hint =
      similar.empty() ? "" : fmt::format(" (the most similar one is {})", printable(similar));
  throw_error<CheckpointError>(
      "{}: there is no tensor {} in {}{}; config.json and the weights must be of the same model",
      directory_.string(), printable(name), searched_files(), hint);
}

const SafetensorsCheckpoint::Entry& SafetensorsCheckpoint::find_matrix(const std::string& name,
                                                                       MatrixShape shape,
                                                                       const std::string& reason) const {
  const Entry& entry = find(name);
  const std::string because = reason.empty() ? "" : fmt::format(" ({})", reason);
  if (!is_matrix(entry.tensor.shape, shape)) {
    throw_error<CheckpointError>("{}: {} is {}, expected {}{}", entry.file.name(), printable(name),
                                 printable(entry.tensor.shape), expected_shape(shape, entry.tensor.shape),
                                 because);
  }
  return entry;
}

const SafetensorsCheckpoint::Entry& SafetensorsCheckpoint::find_elements(const std::string& name,
                                                                         MatrixShape shape) const {
  const Entry& entry = find(name);
  if (entry.tensor.bytes.size() == shape.size() * entry.element_bytes()) return entry;
  return find_matrix(name, shape, "");  // throws
}

std::string SafetensorsCheckpoint::searched_files() const {
  if (files_.size() == 1) return files_.front()->name();
  return fmt::format("its {} files, {} to {}", files_.size(), files_.front()->name(), files_.back()->name());
}

}  // namespace tp
