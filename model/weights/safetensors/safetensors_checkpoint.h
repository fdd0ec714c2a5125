// Reads the weights of a Hugging Face checkpoint slice by slice.
#pragma once

#include "model/files/mapped_file.h"
#include "model/weights/safetensors/safetensors_files.h"
#include "model/weights/safetensors/safetensors_header.h"
#include "model/weights/source/weight_source.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tp {

// One or several safetensors files. They are mapped, not loaded: only pages that `read` touches are read from
// disk. F32, F16 and BF16 can be read. Tensors of other types are accessible to readers that know their
// meaning.
class SafetensorsCheckpoint final : public WeightSource {
 public:
  // Opens `model.safetensors`, or the files that `model.safetensors.index.json` names, and checks all
  // headers. Throws CheckpointError if a file is missing or damaged.
  static std::unique_ptr<SafetensorsCheckpoint> open(const std::filesystem::path& directory);
  // Opens one file. Throws like open().
  static std::unique_ptr<SafetensorsCheckpoint> open_file(const std::filesystem::path& file);

  bool contains(const std::string& name) const override;
  std::vector<std::string> names() const override;
  DType dtype(const std::string& name) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read_exactly(const ColumnReader& columns) override;
  void fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
             Sharded sharded) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  std::optional<StoredRows> stored_rows(const std::string& name, MatrixShape shape,
                                        const TensorSlice& slice) const override;
  std::optional<MappedRows> mapped_rows(const std::string& name, MatrixShape shape) const override;
  std::vector<std::int64_t> whole_numbers(const std::string& name, MatrixShape shape,
                                          const std::string& reason) const override;
  std::vector<TypeUse> types() const override;
  // The type of one tensor.
  TypeUse type_use(const std::string& name) const;
  std::size_t stored_bytes() const override;
  std::size_t bytes_read() const override;
  std::vector<std::string> unread() const override;
  void done_with(const std::string& name) const override;

  // A tensor of any type in memory, for readers that know its meaning; nothing if it is missing.
  struct Raw {
    const StoredTensor& tensor;
    const std::string& file;
    const std::byte* data;
  };
  std::optional<Raw> find_raw(const std::string& name) const;
  // The place in memory of a slice of a matrix of any type, whose elements may be stored in another shape.
  // The slice may be in fetched columns.
  RowsInMemory rows_in_memory(const std::string& name, MatrixShape shape, const TensorSlice& slice) const;
  // A tensor of any type, whose bytes are divided into `parts` equal parts.
  MappedRows::Part mapped_part(const std::string& name, std::size_t parts) const;
  // After read_exactly: announces that the whole tensor will be read soon.
  void will_need(const std::string& name) const;
  // Count bytes of a tensor as read: `bytes`, or all bytes of a tensor that slices share.
  void count_raw(const std::string& name, std::size_t bytes) const;
  void count_shared(const std::string& name) const;

  std::vector<const MappedFile*> mapped_files() const override;
  // A hash of the files' names, sizes and headers.
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  // A tensor of `file`. The counter is atomic because several threads read at once.
  struct Entry {
    Entry(StoredTensor stored, const MappedFile& of) : tensor(std::move(stored)), file(of) {}
    const std::byte* data() const { return file.bytes().data() + tensor.bytes.begin; }
    std::size_t element_bytes() const { return tensor.type.bits / 8; }
    // The tensor's rows, as a matrix with this shape.
    FileRows rows(MatrixShape shape) const {
      return {&file, tensor.bytes.begin, shape.rows, shape.columns * element_bytes()};
    }
    StoredTensor tensor;
    const MappedFile& file;
    mutable std::atomic<std::size_t> bytes_read = 0;
  };

  SafetensorsCheckpoint(const std::filesystem::path& directory, const SafetensorsFiles& found);
  void add_file(const MappedFile& file, const std::map<std::string, std::string>& file_of);
  void check_index(const std::map<std::string, std::string>& file_of) const;
  const Entry& find(const std::string& name) const;
  const Entry& find_matrix(const std::string& name, MatrixShape shape, const std::string& reason) const;
  // A tensor of any shape whose elements, in order, are those of a matrix.
  const Entry& find_elements(const std::string& name, MatrixShape shape) const;
  // Whether a slice is copied instead of used where it is mapped.
  bool copies(const Entry& entry, const TensorSlice& slice) const;
  // Copies a slice to memory of the thread, without gaps between rows.
  RowsInMemory copy_of(const Entry& entry, MatrixShape shape, const TensorSlice& slice) const;
  std::string searched_files() const;
  void count_read(const Entry& entry, std::size_t bytes) const;

  std::filesystem::path directory_;
  std::vector<std::shared_ptr<MappedFile>> files_;
  std::map<std::string, Entry> tensors_;
  std::size_t stored_bytes_ = 0;
  std::uint64_t fingerprint_ = 0;
  mutable std::atomic<std::size_t> bytes_read_ = 0;
  const ColumnReader* columns_ = nullptr;
  mutable FetchedTensors fetched_;
};

}  // namespace tp
