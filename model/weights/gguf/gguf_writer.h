// Writes GGUF files.
#pragma once

#include "model/files/new_file.h"
#include "model/weights/gguf/gguf_type.h"
#include "model/weights/gguf/gguf_values.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tp {

// A tensor to write. Its rows must be whole blocks of its type.
struct GgufOutput {
  std::string name;
  std::vector<std::size_t> shape;  // the innermost dimension last
  GgufType type;

  std::size_t columns() const { return shape.back(); }
  std::size_t rows() const;
  std::size_t row_bytes() const { return type.bytes_of(columns()); }
  std::size_t bytes() const { return rows() * row_bytes(); }
};

class GgufWriter {
 public:
  // Writes the header and reserves the file's space on the disk. Throws Error.
  GgufWriter(const std::filesystem::path& path, const GgufValues& values, std::vector<GgufOutput> tensors);

  const std::vector<GgufOutput>& tensors() const { return tensors_; }
  // The file's path before `finish`. The header can be read; data that has not been written is zero.
  const std::filesystem::path& unfinished() const { return file_.unfinished(); }
  std::uint64_t size() const { return size_; }

  // Writes a part of a tensor's bytes. Throws Error.
  void write(std::size_t tensor, std::size_t begin, std::span<const std::byte> bytes);

  // Gives the file its name.
  void finish() { file_.finish(); }

 private:
  std::vector<GgufOutput> tensors_;
  std::vector<std::uint64_t> places_;  // places of the tensors' data in the file
  std::uint64_t size_ = 0;
  NewFile file_;
};

}  // namespace tp
