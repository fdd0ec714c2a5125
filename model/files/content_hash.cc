#include "model/files/content_hash.h"

#include "parallel/machine/hash.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <string_view>
#include <vector>

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace tp {
namespace {

// Copies pieces that stay in a core's second-level cache, because mapping the pages takes longer.
ContentHash hash_of_bytes(const MappedFile& file, Range bytes, std::size_t read_ahead_to,
                          std::span<std::byte> buffer) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (std::size_t begin = bytes.begin; begin < bytes.end; begin += buffer.size()) {
    const std::span<std::byte> piece = buffer.first(std::min(buffer.size(), bytes.end - begin));
    file.copy(begin, piece, read_ahead_to);
    XXH3_128bits_update(&state, piece.data(), piece.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.low64, hash.high64};
}

}  // namespace

std::string ContentHash::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

ContentHash combined(std::span<const ContentHash> parts) {
  const XXH128_hash_t hash = XXH3_128bits(parts.data(), parts.size_bytes());
  return {hash.low64, hash.high64};
}

void hash_chunks(const MappedFile& file, Range chunks, std::span<ContentHash> out) {
  constexpr std::size_t kPiece = std::size_t{256} << 10;
  const std::size_t size = file.bytes().size();
  for_thread_parts(chunks.size(), chunks.size() * kHashedChunk, [&](std::size_t begin, std::size_t end) {
    std::vector<std::byte> buffer(kPiece);
    const std::size_t last = std::min((chunks.begin + end) * kHashedChunk, size);
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = (chunks.begin + i) * kHashedChunk;
      out[i] = hash_of_bytes(file, {first, std::min(first + kHashedChunk, size)}, last, buffer);
    }
  });
}

std::uint64_t hash_of_header(const MappedFile& file, std::size_t header_size, std::uint64_t hash) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  hash = hash_of(fmt::format("{}/{}/", file.name(), bytes.size()), hash);
  return hash_of(bytes.substr(0, header_size), hash);
}

}  // namespace tp
