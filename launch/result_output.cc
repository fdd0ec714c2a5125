#include "launch/result_output.h"

#include "tp/error.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace tp {
namespace {

bool is_standard_output(const std::string& path) { return path.empty() || path == "-"; }

int open_file(const std::string& path, ResultOutput::Existing existing) {
  const int mode = existing == ResultOutput::Existing::append ? O_APPEND : O_TRUNC;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | mode, 0666);
  const int error = errno;
  require<Error>(descriptor >= 0,
                 "cannot open {} for the results: {}; give --output a file that can be written", path,
                 std::generic_category().message(error));
  return descriptor;
}

}  // namespace

ResultOutput::ResultOutput(const std::string& path, Existing existing)
    : name_(is_standard_output(path) ? "standard output" : path),
      descriptor_(is_standard_output(path) ? STDOUT_FILENO : open_file(path, existing)) {}

ResultOutput::~ResultOutput() {
  if (descriptor_ > STDOUT_FILENO) ::close(descriptor_);
}

void ResultOutput::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void ResultOutput::finish() {
  // Of standard output a copy is closed: the check is the same, and the descriptor stays taken.
  const int last = descriptor_ == STDOUT_FILENO ? ::dup(STDOUT_FILENO) : std::exchange(descriptor_, -1);
  if (last < 0 || ::close(last) != 0) fail(errno);
}

void ResultOutput::fail(int error) const {
  throw_error<Error>("cannot write to {}: {}; is the disk full or the reader gone?", name_,
                     std::generic_category().message(error));
}

void add_output_option(CLI::App& command, std::string& path) {
  command
      .add_option(
          "-o,--output", path,
          "Write the results to this file, in place of what it holds, and check every write (default: "
          "standard output, which mpirun does not check)")
      ->type_name("FILE");
}

void require_other_file(const std::string& input, const std::string& output) {
  if (input.empty() || is_standard_output(output)) return;
  std::error_code not_there;
  const std::filesystem::path source = input == "-" ? "/dev/stdin" : input;
  const bool same = std::filesystem::is_regular_file(output, not_there) &&
                    std::filesystem::equivalent(source, output, not_there);
  require<RequestError>(!same, "{} is both the input and --output, which would replace it; give another file",
                        output);
}

}  // namespace tp
