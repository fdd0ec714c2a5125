#include "launch/common/result_output.h"

#include "launch/common/console.h"
#include "launch/common/message.h"
#include "launch/common/option_group.h"
#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp {
namespace {

bool is_standard_output(const std::string& path) { return path.empty() || path == "-"; }

int open_file(const std::string& path, ResultOutput::Existing existing, std::string_view content) {
  const int mode = existing == ResultOutput::Existing::append ? O_APPEND : 0;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | mode, 0666);
  const int error = errno;
  require<Error>(descriptor >= 0, "cannot open {} for {}: {}; give a file that can be written", path, content,
                 std::generic_category().message(error));
  return descriptor;
}

bool is_regular(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

// Some network file systems have no locks. Other jobs can't be detected on them.
bool is_locked_by_another(int descriptor) {
  return ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

ResultOutput::ResultOutput(const std::string& path, Existing existing, std::string_view content)
    : name_(is_standard_output(path) ? "standard output" : path),
      descriptor_(is_standard_output(path) ? STDOUT_FILENO : open_file(path, existing, content)) {
  is_terminal_ = descriptor_ == STDOUT_FILENO ? leads_to_terminal(STDOUT_FILENO) : ::isatty(descriptor_) == 1;
  if (descriptor_ == STDOUT_FILENO || !is_regular(descriptor_)) return;
  replaces_ = existing == Existing::replace;
  if (!is_locked_by_another(descriptor_)) return;
  ::close(descriptor_);
  throw_error<Error>(
      "cannot write {} to {}: expected a file that no other job uses, found that another job is writing it; "
      "wait until that job ends, or give another file",
      content, path);
}

ResultOutput::~ResultOutput() {
  if (descriptor_ > STDOUT_FILENO) ::close(descriptor_);
}

void ResultOutput::replace_once() {
  if (std::exchange(replaces_, false) && ::ftruncate(descriptor_, 0) != 0) fail(errno);
}

void ResultOutput::write(std::string_view text) {
  replace_once();
  if (!is_terminal_) return write_all(text);
  show_status({});
  write_all(without_controls(text));
}

void ResultOutput::write_styled(std::string_view text) {
  replace_once();
  if (is_terminal_) show_status({});
  write_all(text);
}

void ResultOutput::write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Another program may have made the pipe non-blocking. Its reader needs time.
      pollfd room{descriptor_, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

void ResultOutput::finish() {
  replace_once();
  // For standard output, a copy is closed. This performs the same check and keeps the descriptor in use.
  const int last = descriptor_ == STDOUT_FILENO ? ::dup(STDOUT_FILENO) : std::exchange(descriptor_, -1);
  if (last < 0 || ::close(last) != 0) fail(errno);
}

void ResultOutput::fail(int error) const {
  throw_error<Error>("cannot write to {}: {}; is the disk full, or the pipe closed?", name_,
                     std::generic_category().message(error));
}

void add_output_option(CLI::App& command, std::string& path) {
  OptionGroup(command).add_file(
      "-o,--output", path,
      "Write the results to this file, overwriting it; every write is checked (default: standard "
      "output, which mpirun does not check)");
}

}  // namespace tp
