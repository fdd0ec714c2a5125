#include "model/weights/checkpoint/file_hash.h"

#include "parallel/hash.h"

#include <string_view>

#include <fmt/format.h>

namespace tp {

std::uint64_t hash_of_file(const MappedFile& file, std::size_t header_size, std::uint64_t hash) {
  constexpr std::size_t kSamples = 16;
  constexpr std::size_t kSampleSize = 4096;
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  hash = hash_of(fmt::format("{}/{}/", file.name(), bytes.size()), hash);
  hash = hash_of(bytes.substr(0, header_size), hash);
  const std::string_view data = bytes.substr(header_size);
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    hash = hash_of(data.substr(data.size() / kSamples * sample, kSampleSize), hash);
  }
  return hash;
}

}  // namespace tp
