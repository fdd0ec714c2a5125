#include "model/files/file_hash.h"

#include "parallel/machine/hash.h"

#include <algorithm>
#include <span>
#include <string>
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
  std::string bytes_of_sample;
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    const std::size_t begin = data.size() / kSamples * sample;
    bytes_of_sample.resize(std::min(kSampleSize, data.size() - begin));
    file.read(header_size + begin, std::as_writable_bytes(std::span(bytes_of_sample)));
    hash = hash_of(bytes_of_sample, hash);
  }
  return hash;
}

std::uint64_t hash_of_samples(const MappedFile& file, Range bytes, std::uint64_t hash) {
  constexpr std::size_t kSamples = 8;
  constexpr std::size_t kSampleSize = 64;
  std::string sample;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t begin = bytes.begin + bytes.size() / kSamples * i;
    sample.resize(std::min(kSampleSize, bytes.end - begin));
    file.read(begin, std::as_writable_bytes(std::span(sample)));
    hash = hash_of(sample, hash);
  }
  return hash;
}

}  // namespace tp
