// Writes NumPy's .npy files of float32.
#pragma once

#include "tp/tensor.h"

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace tp {

// Writes a [rows, columns] file, format 1.0, little-endian float32 in C order, row by row. The data goes to a
// temporary file in the same folder, which `finish` renames; without `finish`, the file is removed. If `path`
// exists and is no regular file (a pipe or a device), it is written directly.
class NpyWriter {
 public:
  // Throws Error if the file cannot be created.
  NpyWriter(std::filesystem::path path, std::size_t rows, std::size_t columns);
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  ~NpyWriter();

  // Appends rows of `columns` elements. Throws Error if they have another width, are too many, or cannot be
  // written.
  void append(TensorView<const float> rows);

  // Completes the file, and replaces an existing one. Throws Error if rows are missing or cannot be written.
  void finish();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void write(const void* data, std::size_t size);
  bool is_temporary() const { return temporary_path_ != path_; }
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;  // equals path_ if the file is written directly
  std::size_t rows_;
  std::size_t columns_;
  std::size_t rows_written_ = 0;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace tp
