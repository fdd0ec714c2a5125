// Parses the headers of GGUF files.
//
// The format, little-endian: "GGUF", a version (u32), the numbers of tensors and of metadata values (u64
// each); the values, each with a key (a string: u64 length and bytes), a kind (u32) and the value itself; the
// tensors, each with a name, its number of dimensions (u32), the dimensions (u64 each, the innermost first),
// a type (u32) and its data's offset (u64). The data begins at the next multiple of general.alignment.
// Offsets count from there. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include "model/weights/gguf/gguf_metadata.h"
#include "model/weights/gguf/gguf_type.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tp {

// A tensor in a file.
struct GgufTensor {
  std::string name;
  GgufType type;
  std::vector<std::size_t> shape;  // the innermost dimension last, like everywhere else in this program
  Range bytes;                     // counted from the start of the file

  std::size_t row_bytes() const { return type.bytes_of(shape.back()); }
};

struct GgufHeader {
  GgufMetadata metadata;            // refers to the file
  std::vector<GgufTensor> tensors;  // in the order of their data
  std::size_t size = 0;             // bytes before the tensors' data
};

// Reads and checks the header of the file whose bytes are `file`, without touching the data. `file_name` is
// used in errors. Throws CheckpointError unless this is a complete and consistent GGUF file of version 2 or
// 3.
GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& file_name);

}  // namespace tp
