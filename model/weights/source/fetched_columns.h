// Columns of stored matrices that were read before they are asked for.
#pragma once

#include "model/files/mapped_file.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tp {

// The rows of a matrix in a file, one behind the other.
struct FileRows {
  const MappedFile* file = nullptr;
  std::size_t begin = 0;  // of the first row, counted from the start of the file
  std::size_t rows = 0;
  std::size_t row_bytes = 0;

  // Of the file.
  Range bytes_of(Range some_rows) const {
    return {begin + some_rows.begin * row_bytes, begin + some_rows.end * row_bytes};
  }
};

// Where a slice's first row lies in memory, and from a row to the next.
struct RowsInMemory {
  const std::byte* data = nullptr;
  std::size_t stride = 0;
};

// Some bytes of every row of a matrix, in memory.
class FetchedColumns {
 public:
  // `wanted`: bytes of a row.
  FetchedColumns(std::size_t rows, std::vector<Range> wanted);

  // From a row to the next.
  std::size_t stride() const { return stride_; }
  std::byte* data() const { return bytes_.get(); }
  // Where these bytes of row 0 lie; null if they have not been fetched.
  const std::byte* find(Range bytes) const;

 private:
  std::vector<Range> wanted_;
  std::size_t stride_ = 0;
  std::unique_ptr<std::byte[]> bytes_;
};

// How columns are read. A slice of columns has some bytes of every row; disks are read by the page, and ahead
// of what is asked for, so that touching such a slice of a mapped file brings in the whole matrix.
class ColumnReader {
 public:
  virtual ~ColumnReader() = default;
  // The wanted bytes of every row.
  virtual FetchedColumns fetch(const FileRows& matrix, const std::vector<Range>& wanted) const = 0;
};

// Of the rows of a matrix from one on.
struct FetchedRows {
  std::size_t first_row = 0;
  FetchedColumns columns;
};

// The columns of some tensors.
class FetchedTensors {
 public:
  void add(const std::string& tensor, FetchedRows rows) {
    tensors_.insert_or_assign(tensor, std::move(rows));
  }
  void remove(const std::string& tensor) { tensors_.erase(tensor); }
  // Null if they have not been fetched.
  const FetchedRows* find(const std::string& tensor) const {
    const auto found = tensors_.find(tensor);
    return found == tensors_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, FetchedRows> tensors_;
};

}  // namespace tp
