// GGUF files with any content, valid or not.
#pragma once

#include "model/weights/gguf/gguf_metadata.h"
#include "model/weights/gguf/gguf_type.h"
#include "tests/model/weights/checkpoint_files.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tp::test {

// The bytes of one number, or of several.
template <class... T>
std::string le(T... values) {
  return (bytes_of(std::vector<T>{values}) + ... + std::string());
}
inline std::string gguf_string(std::string_view text) {
  return le(std::uint64_t{text.size()}) + std::string(text);
}

// Builds a file part by part. Every part may be missing or wrong.
class GgufBuilder {
 public:
  // `value`: the bytes after the kind.
  GgufBuilder& value(std::string_view key, GgufKind kind, const std::string& value) {
    values_ += gguf_string(key) + le(static_cast<std::uint32_t>(kind)) + value;
    ++value_count_;
    return *this;
  }
  GgufBuilder& text(std::string_view key, std::string_view text) {
    return value(key, GgufKind::string, gguf_string(text));
  }
  GgufBuilder& whole(std::string_view key, std::uint32_t number) {
    return value(key, GgufKind::u32, le(number));
  }
  GgufBuilder& texts(std::string_view key, const std::vector<std::string>& list) {
    std::string bytes = le(static_cast<std::uint32_t>(GgufKind::string), std::uint64_t{list.size()});
    for (const std::string& text : list) bytes += gguf_string(text);
    return value(key, GgufKind::array, bytes);
  }
  template <class T>
  GgufBuilder& numbers(std::string_view key, GgufKind kind, const std::vector<T>& list) {
    return value(key, GgufKind::array,
                 le(static_cast<std::uint32_t>(kind), std::uint64_t{list.size()}) + bytes_of(list));
  }
  // Adds an entry in the file's order: the innermost dimension comes first.
  GgufBuilder& entry(std::string_view name, const std::vector<std::uint64_t>& dimensions, std::uint32_t type,
                     std::uint64_t offset) {
    entries_ += gguf_string(name) + le(static_cast<std::uint32_t>(dimensions.size())) + bytes_of(dimensions) +
                le(type, offset);
    ++entry_count_;
    return *this;
  }
  // Adds a tensor after the earlier ones. `shape`: the innermost dimension comes last.
  GgufBuilder& tensor(std::string_view name, std::vector<std::uint64_t> shape, std::string_view type,
                      const std::string& data) {
    std::reverse(shape.begin(), shape.end());
    entry(name, shape, find_gguf_type(type)->id, data_.size());
    data_ += data;
    data_.resize((data_.size() + 31) / 32 * 32);
    return *this;
  }
  GgufBuilder& data(const std::string& bytes) {
    data_ += bytes;
    return *this;
  }

  std::string file(std::uint32_t version = 3) const {
    std::string bytes = "GGUF" + le(version, entry_count_, value_count_) + values_ + entries_;
    if (!data_.empty()) bytes.resize((bytes.size() + 31) / 32 * 32);
    return bytes + data_;
  }

 private:
  std::string values_;
  std::string entries_;
  std::string data_;
  std::uint64_t value_count_ = 0;
  std::uint64_t entry_count_ = 0;
};

}  // namespace tp::test
