// The metadata of a GGUF file: keys and typed values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// How a value is stored, numbered as in the file.
enum class GgufKind : std::uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// Bytes of one value; 0 for strings and arrays, whose length varies.
std::size_t size_of(GgufKind kind);
// "u32"
std::string_view name_of(GgufKind kind);

// A value, or a list of values of one kind. The bytes stay in the file until requested.
struct GgufValue {
  GgufKind kind = GgufKind::u8;  // kind of the value, or of a list's elements
  bool is_list = false;
  std::uint64_t count = 1;                // length of a list
  std::span<const std::byte> bytes = {};  // numbers as stored; a string's length (u64) and bytes
};

// Looks up values. Errors are CheckpointErrors that name the file, the key, and what was expected and found.
class GgufMetadata {
 public:
  // Errors call the file `where`. The values' bytes must outlive this object.
  GgufMetadata(std::map<std::string, GgufValue, std::less<>> values, std::string where)
      : values_(std::move(values)), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }

  bool has(std::string_view key) const { return values_.contains(key); }
  std::string_view text(std::string_view key) const;
  std::string_view text_or(std::string_view key, std::string_view otherwise) const;
  // A whole number of any width that is not negative. A list must have equal elements; some files have one
  // element per layer.
  std::uint64_t whole(std::string_view key) const;
  std::uint64_t whole_or(std::string_view key, std::uint64_t otherwise) const;
  // Whole numbers of all layers, which may differ. A value that is not a list gives one number.
  std::vector<std::uint64_t> wholes(std::string_view key) const;
  // Whole numbers below 2^63 that doubles may round, exactly. A list of u64 or i64.
  std::vector<std::uint64_t> exact_wholes(std::string_view key) const;
  // A finite number, whole or not.
  double number(std::string_view key) const;
  double number_or(std::string_view key, double otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  // Lists. Numbers may be of any kind.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<bool> booleans(std::string_view key) const;

 private:
  const GgufValue& at(std::string_view key) const;
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;

  std::map<std::string, GgufValue, std::less<>> values_;
  std::string where_;
};

}  // namespace tp
