// Columns of stored matrices that are read in advance.
#pragma once

#include "model/files/mapped_file.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tp {

// The contiguous rows of a matrix in a file.
struct FileRows {
  const MappedFile* file = nullptr;
  std::size_t begin = 0;  // place of the first row in the file
  std::size_t rows = 0;
  std::size_t row_bytes = 0;

  // Place of some rows in the file.
  Range bytes_of(Range some_rows) const {
    return {begin + some_rows.begin * row_bytes, begin + some_rows.end * row_bytes};
  }
};

// The place of a slice's first row in memory, and the bytes from one row to the next.
struct RowsInMemory {
  const std::byte* data = nullptr;
  std::size_t stride = 0;
};

// Some bytes of each row of a matrix, in memory.
class FetchedColumns {
 public:
  // `wanted`: ranges of bytes in a row.
  FetchedColumns(std::size_t rows, std::vector<Range> wanted);

  // Bytes from one row to the next.
  std::size_t stride() const { return stride_; }
  std::byte* data() const { return bytes_.get(); }
  // The place of these bytes of row 0; null if they have not been fetched.
  const std::byte* find(Range bytes) const;

 private:
  std::vector<Range> wanted_;
  std::size_t stride_ = 0;
  std::unique_ptr<std::byte[]> bytes_;
};

// Reads columns. A slice of columns needs some bytes of each row. Disks are read by pages, and the kernel
// reads ahead, so that touching such a slice of a mapped file would read the whole matrix.
class ColumnReader {
 public:
  virtual ~ColumnReader() = default;
  // Reads the wanted bytes of each row.
  virtual FetchedColumns fetch(const FileRows& matrix, const std::vector<Range>& wanted) const = 0;
};

// Columns of a matrix's rows from `first_row`.
struct FetchedRows {
  std::size_t first_row = 0;
  FetchedColumns columns;
};

// Fetched columns by tensor.
class FetchedTensors {
 public:
  void add(const std::string& tensor, FetchedRows rows) {
    tensors_.insert_or_assign(tensor, std::move(rows));
  }
  void remove(const std::string& tensor) { tensors_.erase(tensor); }
  // Null if the tensor has not been fetched.
  const FetchedRows* find(const std::string& tensor) const {
    const auto found = tensors_.find(tensor);
    return found == tensors_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, FetchedRows> tensors_;
};

}  // namespace tp
