// The weights of a GGUF model, read slice by slice.
#pragma once

#include "model/weights/gguf/gguf_files.h"
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

// Tensors are asked for by the names, and have the rows, columns and values, of a Hugging Face checkpoint.
// What is read from disk is, by the page, what `read` touches: for a slice of columns the blocks that it
// touches.
class GgufCheckpoint final : public WeightSource {
 public:
  // `first`: as find_gguf gave it. Throws CheckpointError if a file is missing or damaged.
  static std::unique_ptr<GgufCheckpoint> open(const std::filesystem::path& first);

  bool contains(const std::string& name) const override;
  // Those that the checkpoint's tensors have, or would have.
  std::vector<std::string> names() const override;
  // bf16 for quantized types: 8 bits of the product of a small integer and a scale, which are precise to a
  // few bits less. Matrices that the file has transposed or in parts are held so.
  DType dtype(const std::string& name) const override;
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read_exactly(const ColumnReader& columns) override;
  void fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
             Sharded sharded) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  void read_groups(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::GroupedRows& out) const override;
  void read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                      const kernels::QuantizedRows& out) const override;
  std::vector<TypeUse> types() const override;
  std::size_t stored_bytes() const override { return files_.stored_bytes(); }
  std::size_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }
  std::vector<std::string> unread() const override;
  std::uint64_t fingerprint() const override { return files_.fingerprint(); }
  std::uint64_t identity() const override { return files_.identity(); }
  void done_with(const std::string& name) const override;

  const GgufFiles& files() const { return files_; }

 private:
  // A matrix of a file: a tensor, or one of a stack of experts'.
  struct Matrix {
    GgufPlace place;
    const GgufFiles::Entry* entry = nullptr;
    MatrixShape shape;                    // as in the checkpoint
    Range bytes;                          // of the file
    std::optional<GgufSplitKvB> split{};  // `entry` is its first half

    const GgufType& type() const { return entry->tensor.type; }
    // The file's rows.
    FileRows rows() const {
      const std::size_t row_bytes = entry->tensor.row_bytes();
      return {&entry->file, bytes.begin, bytes.size() / row_bytes, row_bytes};
    }
    const std::byte* row(std::size_t index) const {
      return entry->file.bytes().data() + rows().bytes_of({index, index}).begin;
    }
  };

  // Columns of the file's rows in memory: perhaps of blocks that were fetched, of which the first row begins
  // at `data`.
  struct Columns {
    const std::byte* data;
    std::size_t stride;
    Range columns;  // counted from there

    const std::byte* row(std::size_t index) const { return data + index * stride; }
  };

  explicit GgufCheckpoint(const std::filesystem::path& first);
  Matrix find(const std::string& name) const;
  Matrix find_whole(const GgufPlace& place, const GgufFiles::Entry& entry) const;
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
  // By the file's tensor. Its keys do not change once the files are open.
  mutable std::unordered_map<const GgufFiles::Entry*, std::atomic<bool>> was_read_;
  const ColumnReader* columns_ = nullptr;
  mutable FetchedTensors fetched_;
};

}  // namespace tp
