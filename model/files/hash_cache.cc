#include "model/files/hash_cache.h"

#include "model/files/regular_file.h"
#include "parallel/machine/hash.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

// A longer file is emptied before the next line: most of its lines describe files that no longer exist.
constexpr std::uint64_t kLongest = std::uint64_t{1} << 20;

std::filesystem::path usual_file() {
  // A relative path would depend on the folder in which the program starts.
  const auto folder = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return value != nullptr && value[0] == '/' ? std::filesystem::path(value) : std::filesystem::path();
  };
  const std::filesystem::path cache = folder("XDG_CACHE_HOME");
  if (!cache.empty()) return cache / "tp-infer" / "file_hashes";
  const std::filesystem::path home = folder("HOME");
  return home.empty() ? home : home / ".cache" / "tp-infer" / "file_hashes";
}

std::string beginning_of(const FileStatus& status) {
  return fmt::format("1 {} {} {} {} {} ", status.device, status.inode, status.size, status.modified,
                     status.changed);
}

// The sum reveals lines that were cut short, or mixed with lines of another host on a network file system.
std::string line_of(const FileStatus& status, const ContentHash& hash) {
  const std::string line = fmt::format("{}{:016x} {:016x} ", beginning_of(status), hash.low, hash.high);
  return fmt::format("{}{:016x}\n", line, mixed(hash_of(line)));
}

// `text` begins with beginning_of(status).
std::optional<ContentHash> hash_in(std::string_view text, const FileStatus& status) {
  const std::size_t begin = beginning_of(status).size();
  if (text.size() < begin + 33) return std::nullopt;
  const auto number = [&](std::size_t at) {
    return std::strtoull(std::string(text.substr(begin + at, 16)).c_str(), nullptr, 16);
  };
  const ContentHash hash{number(0), number(17)};
  return text.starts_with(line_of(status, hash)) ? std::optional(hash) : std::nullopt;
}

std::optional<ContentHash> find_line(std::string_view text, const FileStatus& status) {
  const std::string beginning = beginning_of(status);
  std::optional<ContentHash> found;
  for (std::size_t at = text.find(beginning); at != text.npos && !found; at = text.find(beginning, at + 1))
    found = hash_in(text.substr(at), status);
  return found;
}

}  // namespace

HashCache::HashCache() : HashCache(usual_file()) {}

std::optional<std::vector<ContentHash>> HashCache::find(std::span<const FileStatus> files) const {
  const RegularFile file(file_);
  // Another user could have written any hash.
  if (!file.is_open() || !file.is_own()) return std::nullopt;
  const std::string text = file.text();
  std::vector<ContentHash> hashes;
  for (const FileStatus& status : files) {
    const std::optional<ContentHash> hash = find_line(text, status);
    if (!hash) return std::nullopt;
    hashes.push_back(*hash);
  }
  return hashes;
}

void HashCache::add(const FileStatus& status, const ContentHash& hash) const {
  constexpr std::int64_t kNew = 2'000'000'000;
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  if (file_.empty() || now - status.changed < kNew) return;
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const RegularFile file(file_, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (!file.is_open() || !file.is_own()) return;
  if (file.size() > kLongest && ::ftruncate(file.descriptor(), 0) != 0) return;
  const std::string line = line_of(status, hash);
  // One call, so that the lines of several processes do not mix.
  [[maybe_unused]] const ssize_t written = ::write(file.descriptor(), line.data(), line.size());
}

}  // namespace tp
