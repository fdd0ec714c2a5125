#include "model/files/npy.h"

#include "model/files/mapped_file.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace tp {
namespace {

// The magic string and version 1.0, before a 16-bit header length.
constexpr std::string_view preamble("\x93NUMPY\x01\x00", 8);
constexpr std::size_t kDataOffsetGranule = 64;

std::string header_for(std::size_t rows, std::size_t columns) {
  std::string dictionary =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  const std::size_t unpadded = preamble.size() + 2 + dictionary.size() + 1;
  dictionary.append((kDataOffsetGranule - unpadded % kDataOffsetGranule) % kDataOffsetGranule, ' ');
  dictionary += '\n';
  std::string header(preamble);
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

// Devices and symbolic links are written directly: a rename would replace them.
std::filesystem::path temporary_path_for(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, ignored);
  const bool replaceable = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  return replaceable ? path.string() + ".tmp-" + std::to_string(::getpid()) : path.string();
}

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

NpyWriter::NpyWriter(std::filesystem::path path, std::size_t rows, std::size_t columns)
    : path_(std::move(path)),
      temporary_path_(temporary_path_for(path_)),
      rows_(rows),
      columns_(columns),
      file_(std::fopen(temporary_path_.c_str(), "wbe")) {
  if (file_ == nullptr) fail(errno);
  const std::string header = header_for(rows, columns);
  write(header.data(), header.size());
}

NpyWriter::~NpyWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  if (is_temporary()) std::remove(temporary_path_.c_str());
}

void NpyWriter::append(TensorView<const float> rows) {
  require<Error>(rows.columns() == columns_, "{}: cannot append rows of {} elements, expected {}",
                 path_.string(), rows.columns(), columns_);
  require<Error>(rows.rows() <= rows_ - rows_written_, "{}: cannot append {} rows to {}, expected {} in all",
                 path_.string(), rows.rows(), rows_written_, rows_);
  for (std::size_t i = 0; i < rows.rows(); ++i) write(rows.row(i), columns_ * sizeof(float));
  rows_written_ += rows.rows();
}

void NpyWriter::finish() {
  require<Error>(rows_written_ == rows_, "{}: the file has {} rows, expected {}", path_.string(),
                 rows_written_, rows_);
  // Closing writes the remaining buffer, so it may find the disk full.
  const bool closed = std::fclose(file_.release()) == 0;
  if (!closed || (is_temporary() && std::rename(temporary_path_.c_str(), path_.c_str()) != 0)) {
    const int error = errno;
    if (is_temporary()) std::remove(temporary_path_.c_str());
    fail(error);
  }
}

void NpyWriter::write(const void* data, std::size_t size) {
  if (size > 0 && std::fwrite(data, 1, size, file_.get()) != size) fail(errno);
}

void NpyWriter::fail(int error) const {
  throw_error<Error>(
      "{}: the file cannot be written ({}); check the directory, its permissions and the free space",
      path_.string(), std::generic_category().message(error));
}

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
