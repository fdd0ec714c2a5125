// Parses the headers of safetensors files.
//
// The format: the header's length (eight bytes, little-endian), the header, and the tensors' data. The header
// is a JSON object, {"name": {"dtype": "BF16", "shape": [4096, 14336], "data_offsets": [begin, end]}, ...}.
// Offsets count from the end of the header. "__metadata__" contains strings, which are not used. The tensors
// cover the data without gaps or overlaps. https://github.com/huggingface/safetensors#format
#pragma once

#include "model/weights/source/stored_type.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tp {

// A tensor in a file.
struct StoredTensor {
  std::string name;
  StoredType type;
  std::vector<std::size_t> shape;
  Range bytes;  // counted from the start of the file
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their data
  std::size_t size = 0;               // bytes before the tensors' data
};

// Reads and checks the header of the file whose bytes are `file`, without touching the data. `file_name` is
// used in errors. Throws CheckpointError unless this is a complete and consistent safetensors file.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name);

}  // namespace tp
