// Hashes files, to compare the files of ranks.
#pragma once

#include "model/files/mapped_file.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// Continues `hash` with the file's identity: name, size, header and a few samples of the data, which change
// if the model is trained again.
std::uint64_t hash_of_file(const MappedFile& file, std::size_t header_size, std::uint64_t hash);

// Continues `hash` with samples of these bytes of the file.
std::uint64_t hash_of_samples(const MappedFile& file, Range bytes, std::uint64_t hash);

}  // namespace tp
