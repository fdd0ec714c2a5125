// Rows of a matrix that stay in the checkpoint's files.
#pragma once

#include "model/files/mapped_file.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace tp {

// Rows that are read one by one while the model runs. The files stay mapped, even if the source of the
// weights is gone. The ranks of a host read the same pages of the page cache, so a host has one copy of the
// rows. Linux drops pages when memory is short, and reads them again.
class MappedRows {
 public:
  // Bytes in a file: those of each row, or of a few adjacent rows that share scales.
  struct Part {
    std::shared_ptr<const MappedFile> file{};  // null: only the size is known
    std::size_t begin = 0;                     // place of the first row's bytes
    std::size_t bytes = 0;
    std::size_t rows = 1;  // rows that share the bytes
  };
  // Writes a row as float32, [columns]. Must be thread-safe.
  using Read = std::function<void(std::size_t row, float* out)>;

  MappedRows(std::size_t rows, std::vector<Part> parts, Read read);

  // From now on, reading a row reads no neighbours from the disk.
  void expect_random_reads() const;

  // Writes a row as float32, [columns], with the values of WeightSource::read. Thread-safe.
  void read(std::size_t row, float* out) const { read_(row, out); }
  // Hints that the row is read soon: its pages are read in the background unless they are in memory.
  // Thread-safe.
  void will_need(std::size_t row) const;
  // Size of all rows in the files.
  std::size_t bytes() const;

 private:
  // The place of all bytes of a part.
  Range place_of(const Part& part) const;

  std::size_t rows_;
  std::vector<Part> parts_;
  Read read_;
};

}  // namespace tp
