// The metadata of a GGUF file to write: the reverse of GgufMetadata.
#pragma once

#include "model/weights/gguf/gguf_metadata.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Setting a key again replaces its value.
class GgufValues {
 public:
  void text(std::string_view key, std::string_view value);
  void whole(std::string_view key, std::uint32_t value);
  void number(std::string_view key, float value);
  void boolean(std::string_view key, bool value);
  void texts(std::string_view key, std::span<const std::string> values);
  void wholes(std::string_view key, std::span<const std::int32_t> values);
  void wholes(std::string_view key, std::span<const std::uint64_t> values);
  void numbers(std::string_view key, std::span<const float> values);
  void booleans(std::string_view key, const std::vector<bool>& values);
  // Copies a value from another file.
  void copy(std::string_view key, const GgufValue& value);

  std::size_t count() const { return values_.size(); }
  // All metadata as stored in a file: keys, kinds, values.
  std::string bytes() const;

 private:
  void set(std::string_view key, GgufKind kind, std::string bytes);
  void set_list(std::string_view key, GgufKind kind, std::size_t count, std::string_view elements);

  std::map<std::string, std::string> values_;  // kind and value, by key
};

// A number's bytes, or a string's length and bytes.
template <class Number>
std::string gguf_bytes(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
std::string gguf_bytes(std::string_view text);

}  // namespace tp
