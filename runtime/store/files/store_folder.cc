#include "runtime/store/files/store_folder.h"

#include "model/files/regular_file.h"
#include "runtime/store/files/prompt_ids.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <random>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp {
namespace {

constexpr std::string_view kTemporary = ".tmp";

std::string reason_of(int error) { return std::generic_category().message(error); }

std::string write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return reason_of(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

// A file, never that of a link.
RegularFile open_file(const std::filesystem::path& path, int flags = O_RDONLY, mode_t mode = 0) {
  return RegularFile(path, flags | O_NOFOLLOW, mode);
}

// The reason why the file is not ours to read, else nothing.
std::string check_file(const RegularFile& file) {
  if (!file.is_open()) return file.error();
  // Another user could have written any keys and values.
  return file.is_own() ? std::string() : "it belongs to another user";
}

}  // namespace

StoreFolder::StoreFolder(const std::filesystem::path& store, const std::string& name, std::string description)
    : path_(store / name), description_(std::move(description) + "\n") {
  std::error_code error;
  std::filesystem::create_directories(store, error);
  if (!error) std::filesystem::create_directory(path_, error);
  struct stat status {};
  require<ConfigError>(
      error ||
          (::lstat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid()),
      "cannot keep prompts in {}: expected {} to be a folder of this user, found a link, a file or another "
      "user's folder; choose another (--kv-store)",
      store.string(), path_.filename().string());
  require<ConfigError>(!error && ::access(path_.c_str(), R_OK | X_OK) == 0,
                       "cannot keep prompts in {}: expected a folder that may be read and written, found {}; "
                       "choose another (--kv-store)",
                       store.string(), reason_of(error ? error.value() : errno));
  ::chmod(path_.c_str(), 0700);
  describe();
}

void StoreFolder::describe() const {
  if (!exists(path_ / kDescription)) write_once(path_ / kDescription, std::as_bytes(std::span(description_)));
}

std::filesystem::path StoreFolder::path_of(const PromptId& id, const std::string& part) const {
  return path_ / fmt::format("{}-{}", hex_of(id), part);
}

bool StoreFolder::exists(const std::filesystem::path& file) {
  struct stat status {};
  return ::lstat(file.c_str(), &status) == 0;
}

std::string StoreFolder::write(const std::filesystem::path& file, std::span<const std::byte> bytes) const {
  std::string error = write_once(file, bytes);
  if (error != reason_of(ENOENT)) return error;
  // Another rank may create it again at the same time.
  if (::mkdir(path_.c_str(), 0700) == 0)
    describe();
  else if (errno != EEXIST)
    return error;
  return write_once(file, bytes);
}

std::string StoreFolder::write_once(const std::filesystem::path& file,
                                    std::span<const std::byte> bytes) const {
  std::random_device random;
  const std::filesystem::path temporary =
      path_ / fmt::format("{:08x}{:08x}{}", random(), random(), kTemporary);
  std::string error;
  std::error_code failed;
  {
    const RegularFile opened = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!opened.is_open()) return opened.error();
    ::flock(opened.descriptor(), LOCK_EX | LOCK_NB);  // until renamed, so that nobody considers it abandoned
    error = write_all(opened.descriptor(), bytes);
    if (error.empty() && std::filesystem::is_directory(file, failed)) remove(file);
    if (error.empty() && ::rename(temporary.c_str(), file.c_str()) != 0) error = reason_of(errno);
  }
  if (!error.empty()) ::unlink(temporary.c_str());
  return error;
}

std::string StoreFolder::read(const std::filesystem::path& file, std::span<std::byte> out) {
  const RegularFile opened = open_file(file);
  std::string error = check_file(opened);
  if (!error.empty()) return error;
  if (opened.size() != out.size()) return "it has another size";
  const ssize_t count = opened.read(out.data(), out.size());
  if (count < 0) return reason_of(errno);
  if (static_cast<std::size_t>(count) != out.size()) return "it is cut short";
  ::futimens(opened.descriptor(), nullptr);  // the least recently used files are removed first
  return {};
}

void StoreFolder::remove(const std::filesystem::path& file) {
  if (::unlink(file.c_str()) == 0 || errno == ENOENT) return;
  std::error_code error;
  std::filesystem::remove_all(file, error);
}

ParsedRun StoreFolder::read_header(const std::filesystem::path& file) {
  const RegularFile opened = open_file(file);
  ParsedRun run;
  run.error = check_file(opened);
  if (!run.error.empty()) return run;
  std::vector<std::byte> beginning;
  // Almost all files have few tokens.
  for (const std::size_t tokens : {std::size_t{1024}, kMaxRunTokens}) {
    const std::size_t before = beginning.size();
    beginning.resize(std::min<std::uint64_t>(opened.size(), run_offset(tokens)));
    if (opened.read(beginning.data() + before, beginning.size() - before) < 0)
      return {.header = {}, .values = {}, .error = reason_of(errno)};
    run = parse_run_header(beginning, opened.size());
    if (run.error.empty()) return run;
  }
  return run;
}

std::vector<std::filesystem::path> StoreFolder::files_of(const std::string& part) const {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    if (entry.path().filename().string().ends_with("-" + part)) files.push_back(entry.path());
  }
  return files;
}

void StoreFolder::remove_abandoned() const {
  constexpr std::time_t kMinute = 60;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    if (!entry.path().filename().string().ends_with(kTemporary)) continue;
    const RegularFile opened = open_file(entry.path());
    if (!opened.is_open()) continue;
    // A file without a lock may be so new that its writer has yet to lock it.
    const bool is_old = opened.status().st_mtim.tv_sec + kMinute < ::time(nullptr);
    if (is_old && ::flock(opened.descriptor(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
  }
}

}  // namespace tp
