#include "model/files/npy.h"

#include "tp/internal/require.h"

#include <cerrno>
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

}  // namespace tp
