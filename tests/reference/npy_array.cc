#include "tests/reference/npy_array.h"

#include "model/files/mapped_file.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>
#include <utility>

namespace tp {
namespace {

// The magic string and version 1.0, before a 16-bit header length.
constexpr std::string_view preamble("\x93NUMPY\x01\x00", 8);

// The text after `key` and a colon in a header's dictionary; empty if the key is missing.
std::string_view value_of(std::string_view dictionary, std::string_view key) {
  const std::size_t found = dictionary.find(key);
  if (found == std::string_view::npos) return {};
  std::string_view rest = dictionary.substr(found + key.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" :"), rest.size()));
  return rest;
}

// The numbers of a tuple, "(3, 4)" or "(3,)". Empty if the text is not a tuple, or it has more than three
// numbers or too large ones.
std::vector<std::size_t> parse_shape(std::string_view text) {
  if (!text.starts_with('(')) return {};
  std::vector<std::size_t> shape;
  bool in_number = false;
  for (const char c : text.substr(1, text.find(')') - 1)) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      if (!std::exchange(in_number, true)) shape.push_back(0);
      if (shape.size() > 3 || shape.back() > SIZE_MAX / 100) return {};
      shape.back() = shape.back() * 10 + static_cast<std::size_t>(c - '0');
    } else if (c == ',' || c == ' ') {
      in_number = false;
    } else {
      return {};
    }
  }
  return shape;
}

}  // namespace

NpyArray read_npy(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const auto check = [&](bool condition, std::string_view expected) {
    require<Error>(condition, "{}: not a file that can be compared with: expected {}", path.string(),
                   expected);
  };
  const std::size_t fixed = preamble.size() + 2;
  check(bytes.starts_with(preamble) && bytes.size() >= fixed, "NumPy format 1.0");
  const std::size_t length = static_cast<unsigned char>(bytes[fixed - 2]) +
                             (std::size_t{static_cast<unsigned char>(bytes[fixed - 1])} << 8);
  check(length <= bytes.size() - fixed, "a whole header");
  const std::string_view dictionary = bytes.substr(fixed, length);
  check(value_of(dictionary, "'descr'").starts_with("'<f4'"), "little-endian float32 ('<f4')");
  check(value_of(dictionary, "'fortran_order'").starts_with("False"), "C order");

  NpyArray array;
  array.shape = parse_shape(value_of(dictionary, "'shape'"));
  check(!array.shape.empty(), "one to three dimensions");
  std::size_t size = sizeof(float);
  bool fits = true;
  for (const std::size_t extent : array.shape) fits = fits && !__builtin_mul_overflow(size, extent, &size);
  check(fits && size == bytes.size() - fixed - length, "as many elements as the shape says");
  array.values.resize(size / sizeof(float));
  if (size > 0) std::memcpy(array.values.data(), bytes.data() + fixed + length, size);
  return array;
}

}  // namespace tp
