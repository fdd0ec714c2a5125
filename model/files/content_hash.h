// Hashes of files, which show whether two files are equal.
#pragma once

#include "model/files/mapped_file.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tp {

// 128 bits of XXH3. Not cryptographic.
struct ContentHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  // 32 hexadecimal digits.
  std::string hex() const;

  bool operator==(const ContentHash&) const = default;
};

// The hash of a whole that consists of these parts.
ContentHash combined(std::span<const ContentHash> parts);

// Files are hashed in chunks, so that ranks and threads can share the work.
inline constexpr std::size_t kHashedChunk = std::size_t{4} << 20;
constexpr std::size_t hashed_chunks(std::size_t bytes) { return (bytes + kHashedChunk - 1) / kHashedChunk; }

// Hashes chunks of the file on all threads. `out` is [chunks.size()]. Throws CheckpointError if the file
// cannot be read.
void hash_chunks(const MappedFile& file, Range chunks, std::span<ContentHash> out);

// Continues `hash` with the file's name, size and header.
std::uint64_t hash_of_header(const MappedFile& file, std::size_t header_size, std::uint64_t hash);

}  // namespace tp
