#include "launch/distinct_files.h"

#include "launch/model_path.h"
#include "tp/internal/require.h"

#include <system_error>

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStandardStream = "-";

// Writing to a device or a pipe destroys nothing.
bool is_one_file(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return fs::is_regular_file(one, ignored) && fs::equivalent(one, other, ignored);
}

// Neither needs to exist yet.
bool is_one_destination(const std::string& one, const std::string& other) {
  if (one == kStandardStream || other == kStandardStream) return one == other;
  std::error_code ignored;
  return is_one_file(one, other) || (!fs::exists(one, ignored) && fs::weakly_canonical(one, ignored) ==
                                                                      fs::weakly_canonical(other, ignored));
}

[[noreturn]] void refuse(const UsedFile& written, const std::string& found) {
  throw_error<RequestError>("cannot write {}: expected a file of its own for {}, found {}; give another file",
                            written.path, written.option, found);
}

void check(const UsedFile& written, const std::vector<UsedFile>& read, const fs::path& model) {
  if (written.path.empty() || written.path == kStandardStream) return;
  for (const UsedFile& file : read) {
    if (file.path.empty()) continue;
    const bool is_input = file.path == kStandardStream;
    if (is_one_file(written.path, is_input ? "/dev/stdin" : file.path))
      refuse(written, is_input ? "standard input" : "that of " + file.option);
  }
  if (model.empty()) return;
  for (const fs::path& file : model_files(model))
    if (is_one_file(written.path, file)) refuse(written, "one of the model");
}

}  // namespace

void require_distinct_files(const std::vector<UsedFile>& written, const std::vector<UsedFile>& read,
                            const fs::path& model) {
  for (const UsedFile& file : written) {
    check(file, read, model);
    for (const UsedFile& other : written) {
      if (&other == &file) break;
      if (!file.path.empty() &&
          is_one_destination(other.path.empty() ? kStandardStream : other.path, file.path))
        refuse(file, "that of " + other.option);
    }
  }
}

}  // namespace tp
