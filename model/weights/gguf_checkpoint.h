// Reads the weights of a GGUF model slice by slice.
#pragma once

#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf/gguf_fused.h"
#include "model/weights/gguf/gguf_split_kv_b.h"
#include "model/weights/gguf_names.h"
#include "model/weights/source/weight_source.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace tp {

// Tensors have the names, rows, columns and values of the Hugging Face checkpoint. `read` reads only the
// pages that contain the slice: for a slice of columns, the blocks with these columns.
class GgufCheckpoint final : public WeightSource {
 public:
  // `first`: as returned by find_gguf. Throws CheckpointError if a file is missing or damaged.
  static std::unique_ptr<GgufCheckpoint> open(const std::filesystem::path& first);

  bool contains(const std::string& name) const override;
  // The names of the tensors in the Hugging Face checkpoint.
  std::vector<std::string> names() const override;
  std::string stored_name(const std::string& name) const override;
  // bf16 for quantized types, because the product of a small integer and a scale is less precise than bf16.
  // Quantized matrices that the file stores transposed or in parts are kept in memory as bf16.
  DType dtype(const std::string& name) const override;
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read_exactly(const ColumnReader& columns) override;
  void fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
             Sharded sharded) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  std::optional<MappedRows> mapped_rows(const std::string& name, MatrixShape shape) const override;
  std::vector<std::int64_t> whole_numbers(const std::string& name, MatrixShape shape,
                                          const std::string& reason) const override;
  void read_groups(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::GroupedRows& out) const override;
  void read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                      const kernels::QuantizedRows& out) const override;
  void read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::ScaledRows& out) const override;
  // The tensor must have encoded rows (gguf_encoded_rows.h).
  StoredScales scales_of(const std::string& name) const override;
  std::vector<TypeUse> types() const override;
  std::size_t stored_bytes() const override { return files_.stored_bytes(); }
  std::size_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }
  std::vector<std::string> unread() const override;
  std::vector<const MappedFile*> mapped_files() const override { return files_.parts(); }
  std::uint64_t fingerprint() const override { return files_.fingerprint(); }
  void done_with(const std::string& name) const override;

  const GgufFiles& files() const { return files_; }

 private:
  // A matrix in a file: a tensor, or an expert's part of a stack.
  struct Matrix {
    GgufPlace place;
    const GgufFiles::Entry* entry = nullptr;
    MatrixShape shape;                    // shape in the checkpoint
    Range bytes;                          // range in the file
    std::optional<GgufSplitKvB> split{};  // set if the file has two stacks; `entry` is the first
    float factor = 1.0F;                  // see gguf_factor.h

    const GgufType& type() const { return entry->tensor.type; }
    // The rows as stored in the file.
    FileRows rows() const {
      const std::size_t row_bytes =
          place.matrix_row != 0 ? bytes.size() / shape.rows : entry->tensor.row_bytes();
      return {&entry->file, bytes.begin, bytes.size() / row_bytes, row_bytes};
    }
    const std::byte* row(std::size_t index) const {
      return entry->file.bytes().data() + rows().bytes_of({index, index}).begin;
    }
  };

  // Columns of the file's rows in memory. Fetched blocks begin with the first row at `data`.
  struct Columns {
    const std::byte* data;
    std::size_t stride;
    Range columns;  // counted from `data`

    const std::byte* row(std::size_t index) const { return data + index * stride; }
  };

  explicit GgufCheckpoint(const std::filesystem::path& first);
  Matrix find(const std::string& name) const;
  Matrix find_whole(const GgufPlace& place, const GgufRows& part) const;
  bool is_stored_by_rows(const GgufTensor& tensor) const;
  [[noreturn]] void refuse_missing(const std::string& tensor) const;
  Matrix find(const std::string& name, MatrixShape shape, const std::string& reason) const;
  Columns columns_of(const std::string& name, const Matrix& matrix, Range columns) const;
  void read_rows(const Matrix& matrix, const Columns& stored, const TensorSlice& slice,
                 TensorView<float> out) const;
  void read_transposed(const Matrix& matrix, const Columns& stored, const TensorSlice& slice,
                       TensorView<float> out) const;
  void read_vector(const Matrix& matrix, Range columns, TensorView<float> out) const;
  void count_read(const Matrix& matrix, std::size_t rows, Range columns) const;
  void count_read(const GgufFiles::Entry& entry, std::size_t bytes) const;

  GgufFiles files_;
  GgufNames names_;
  mutable std::atomic<std::size_t> bytes_read_ = 0;
  // Whether each tensor of the files was read. The keys do not change after the files are opened.
  mutable std::unordered_map<const GgufFiles::Entry*, std::atomic<bool>> was_read_;
  const ColumnReader* columns_ = nullptr;
  mutable FetchedTensors fetched_;
};

}  // namespace tp
