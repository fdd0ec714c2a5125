#include "runtime/gateway/job.h"

#include "runtime/gateway/message_output.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tp {
namespace {

// From /proc/PID/stat.
struct ProcessState {
  char state = '?';
  pid_t parent = 0;
  pid_t session = 0;
};

std::optional<ProcessState> state_of(pid_t process) {
  std::ifstream stream(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(stream, line);
  const std::size_t name_end = line.rfind(')');  // a name may contain anything
  if (name_end == std::string::npos) return std::nullopt;
  ProcessState state;
  long group = 0;
  const std::string rest = line.substr(name_end + 1);
  if (std::sscanf(rest.c_str(), " %c %d %ld %d", &state.state, &state.parent, &group, &state.session) != 4)
    return std::nullopt;
  return state;
}

// The states of a session's processes, including those that wait to be reaped.
std::map<pid_t, ProcessState> states_of_session(pid_t session) {
  std::map<pid_t, ProcessState> states;
  DIR* const folder = ::opendir("/proc");
  if (folder == nullptr) return states;
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    pid_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ptr != name.data() + name.size())
      continue;
    const std::optional<ProcessState> state = state_of(process);
    if (state && state->session == session) states.emplace(process, *state);
  }
  ::closedir(folder);
  return states;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs in the child, between fork and exec, so it calls nothing that allocates.
[[noreturn]] void become(char* const* arguments, char* const* environment, int output, int errors,
                         pid_t parent) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) ::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  // The job must not hold the gateway's sockets: the port would stay in use if the gateway dies.
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);  // since Linux 5.11
  ::execvpe(arguments[0], arguments, environment);
  const char* const reason = ::strerrordesc_np(errno);
  for (const char* text :
       {"tp-infer gateway: cannot start ", static_cast<const char*>(arguments[0]), ": ", reason, "\n"}) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  }
  ::_exit(127);
}

// The environment with additions, which replace variables of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view name =
        std::string_view(*variable).substr(0, std::string_view(*variable).find('=') + 1);
    const bool is_replaced =
        std::ranges::any_of(variables, [&](const std::string& added) { return added.starts_with(name); });
    if (!is_replaced) all.emplace_back(*variable);
  }
  return all;
}

// Passes on what is in the pipe. Returns false at its end. `lines` may be null.
bool pass_on(int pipe, ErrorLines* lines) {
  constexpr std::size_t kPipeBytes = 65536;  // capacity on Linux; a job may fill the pipe again and again
  char buffer[16384];
  for (std::size_t passed = 0; passed <= kPipeBytes;) {
    const ssize_t bytes = ::read(pipe, buffer, sizeof(buffer));
    if (bytes < 0) return errno == EAGAIN || errno == EINTR;
    if (bytes == 0) return false;
    if (lines != nullptr) lines->add({buffer, static_cast<std::size_t>(bytes)});
    write_or_drop({buffer, static_cast<std::size_t>(bytes)});
    passed += static_cast<std::size_t>(bytes);
  }
  return true;
}

// Closes the descriptor with its last copy.
using Descriptor = std::shared_ptr<const int>;

Descriptor owned(int descriptor) {
  return {new int(descriptor), [](const int* end) {
            ::close(*end);
            delete end;
          }};
}

// A pipe whose data is passed on.
struct MessagePipe {
  Descriptor reader;
  Descriptor writer;  // for the job
};

// `lines` may be null.
MessagePipe message_pipe(HttpServer& http, std::shared_ptr<ErrorLines> lines) {
  int pipe[2];
  require<Error>(::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) == 0, "cannot make a pipe: {}", std::strerror(errno));
  ::fcntl(pipe[1], F_SETFL, 0);  // the job's own writes may block
  const Descriptor reader = owned(pipe[0]);
  http.when_readable(*reader, [reader, lines = std::move(lines)] { return pass_on(*reader, lines.get()); });
  return {reader, owned(pipe[1])};
}

}  // namespace

std::vector<pid_t> members_of_session(pid_t session) {
  std::vector<pid_t> members;
  for (const auto& [process, state] : states_of_session(session)) {
    if (state.state != 'Z' && state.state != 'X') members.push_back(process);
  }
  return members;
}

Job::Job(HttpServer& http, const std::vector<std::string>& command,
         const std::vector<std::string>& variables) {
  std::vector<std::string> arguments = command;
  std::vector<std::string> environment = environment_with(variables);
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  const MessagePipe output = message_pipe(http, nullptr);
  const MessagePipe errors = message_pipe(http, errors_);
  error_pipe_ = errors.reader;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0)
    become(argument_pointers.data(), environment_pointers.data(), *output.writer, *errors.writer, parent);
  require<Error>(process_ > 0, "cannot start a process: {}", std::strerror(errno));
}

Job::~Job() {
  while (!has_ended()) {
    kill();
    ::usleep(1000);
  }
}

bool Job::has_ended() {
  note_files();
  reap();
  if (end_.empty()) return false;
  const std::map<pid_t, ProcessState> left = states_of_session(process_);
  for (const auto& [process, state] : left) {
    const bool is_dead = state.state == 'Z' || state.state == 'X';
    if (!is_dead) {
      files_.note({&process, 1});
      ::kill(process, SIGKILL);
    }
    if (is_dead && state.parent == ::getpid()) ::waitpid(process, nullptr, WNOHANG);
  }
  if (!left.empty()) return false;
  files_.remove();
  return true;
}

// Looks less and less often: a job maps most of its files while it starts.
void Job::note_files() {
  using namespace std::chrono_literals;
  if (!end_.empty() || Clock::now() < next_note_) return;
  note_files_now();
  next_note_ = Clock::now() + std::max<Clock::duration>(250ms, (Clock::now() - started_) / 2);
}

void Job::note_files_now() { files_.note(members_of_session(process_)); }

void Job::reap() {
  int status = 0;
  if (!end_.empty() || ::waitpid(process_, &status, WNOHANG) != process_) return;
  pass_on(*error_pipe_, errors_.get());  // the job's last messages explain its end
  if (WIFEXITED(status)) status_ = WEXITSTATUS(status);
  end_ = WIFSIGNALED(status) ? fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                             : fmt::format("exit status {}", WEXITSTATUS(status));
}

bool Job::never_serves() const {
  constexpr int kStatuses[] = {0, 2, 126, 127};  // shells end with the last two if they cannot run a program
  return std::ranges::find(kStatuses, status_) != std::end(kStatuses) || errors_->names_program();
}

void Job::signal(int number) const {
  if (end_.empty() && process_ > 0) ::kill(process_, number);
}

void Job::kill() {
  note_files_now();
  signal(SIGKILL);  // perhaps it has no session of its own yet
  for (const pid_t process : members_of_session(process_)) ::kill(process, SIGKILL);
}

}  // namespace tp
