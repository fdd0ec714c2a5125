#include "tests/launch/process.h"

#include "parallel/machine/file_text.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tp::test {
namespace {

// Sanitizers make programs several times slower.
#if defined(__SANITIZE_ADDRESS__)
constexpr double kSanitizerFactor = 5;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr double kSanitizerFactor = 5;
#else
constexpr double kSanitizerFactor = 1;
#endif
#else
constexpr double kSanitizerFactor = 1;
#endif

using namespace std::chrono_literals;

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  return {ends[0], ends[1]};
}

// Both ends of a program's standard streams: the program's and the test's.
struct Streams {
  int child_input, child_out, child_err;
  int input, out, err;
};

Streams on_pipes() {
  const Pipe input = make_pipe();
  const Pipe out = make_pipe();
  const Pipe err = make_pipe();
  return {input.read, out.write, err.write, input.write, out.read, err.read};
}

// Opens a terminal. A person's keys are `input`, and the screen's text is `out`.
Streams on_terminal() {
  const int person = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  char name[128];
  if (person < 0 || ::grantpt(person) != 0 || ::unlockpt(person) != 0 ||
      ::ptsname_r(person, name, sizeof(name)) != 0) {
    throw std::runtime_error("cannot make a terminal");
  }
  const auto open_end = [&] { return ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC); };
  const Streams streams = {open_end(), open_end(), open_end(), ::fcntl(person, F_DUPFD_CLOEXEC, 0),
                           person,     -1};
  const winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ::ioctl(person, TIOCSWINSZ, &size);
  return streams;
}

std::string new_mark() {
  static int count = 0;
  return "TP_LAUNCH_TEST=" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

// Returns a process's environment as "NAME=value\0NAME=value\0", or an empty text for an ended process.
std::string environment_of(pid_t process) {
  return file_text("/proc/" + std::to_string(process) + "/environ");
}

bool has_variable(const std::string& environment, const std::string& variable) {
  const std::string text = '\0' + environment;
  return text.find('\0' + variable + '\0') != std::string::npos;
}

void close_end(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

// Appends available bytes. Closes the descriptor at the end of the stream. Returns whether any bytes were
// available.
bool drain(int& end, std::string& text) {
  char buffer[65536];
  const ssize_t size = ::read(end, buffer, sizeof(buffer));
  if (size > 0) {
    text.append(buffer, static_cast<std::size_t>(size));
    return true;
  }
  if (size == 0 || (errno != EAGAIN && errno != EINTR)) close_end(end);
  return false;
}

void set_variable(const std::string& variable) {
  const std::size_t equals = variable.find('=');
  ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
}

[[noreturn]] void run_child(const std::vector<std::string>& command, const StartOptions& options,
                            const std::string& mark, const Streams& streams) {
  ::signal(SIGINT, SIG_DFL);  // tests in the background ignore it
  ::dup2(streams.child_input, STDIN_FILENO);
  ::dup2(streams.child_out, STDOUT_FILENO);
  ::dup2(streams.child_err, STDERR_FILENO);
  if (options.on_terminal) {
    ::setsid();
    ::ioctl(STDIN_FILENO, TIOCSCTTY, 0);  // so that Ctrl-C is a signal to the program
  }
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
  set_variable(mark);
  for (const std::string& variable : options.variables) set_variable(variable);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const StartOptions& options) : mark_(new_mark()) {
  Streams streams = options.on_terminal ? on_terminal() : on_pipes();
  ::signal(SIGPIPE, SIG_IGN);  // a program may end before it reads its input
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    run_child(command, options, mark_, streams);
  }
  for (int* end : {&streams.child_input, &streams.child_out, &streams.child_err}) close_end(*end);
  input_ = streams.input;
  out_ = streams.out;
  err_ = streams.err;
  write_input(options.input);
  if (!options.keep_input_open) close_input();
}

Process::~Process() {
  close_input();
  // Ranks need a moment to end after mpirun.
  for (int wait = 0; wait < 100 && !members().empty(); ++wait) std::this_thread::sleep_for(50ms);
  if (!members().empty()) {
    ADD_FAILURE() << members().size() << " processes are left over";
    kill_members();
  }
  if (!reaped_) ::waitpid(pid_, nullptr, 0);
  close_end(out_);
  close_end(err_);
}

void Process::write_input(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(input_, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Process::close_input() { close_end(input_); }

// Reads bytes that arrive within this time. Returns false if no more can arrive.
bool Process::read_some(double seconds) {
  std::vector<pollfd> ends;
  if (out_ >= 0) ends.push_back({out_, POLLIN, 0});
  if (err_ >= 0) ends.push_back({err_, POLLIN, 0});
  if (ends.empty()) return false;
  if (::poll(ends.data(), ends.size(), static_cast<int>(seconds * 1000)) <= 0) return true;
  for (const pollfd& end : ends) {
    if (end.revents == 0) continue;
    if (end.fd == out_) {
      reads_ += drain(out_, finished_.out) ? 1 : 0;
    } else {
      drain(err_, finished_.err);
    }
  }
  return true;
}

bool Process::wait_for_output(const std::function<bool(const std::string& out)>& condition, double seconds) {
  return wait_for([&] { return condition(finished_.out); }, seconds);
}

bool Process::wait_for_error(const std::function<bool(const std::string& err)>& condition, double seconds) {
  return wait_for([&] { return condition(finished_.err); }, seconds);
}

bool Process::wait_for_message(const std::string& message, double seconds) {
  return wait_for_error([&](const std::string& err) { return err.find(message) != std::string::npos; },
                        seconds);
}

bool Process::wait_for(const std::function<bool()>& condition, double seconds) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds * kSanitizerFactor);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline || !read_some(0.05)) return false;
  }
  return true;
}

bool Process::ended() {
  if (reaped_) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  reaped_ = true;
  finished_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

Finished Process::finish(double seconds) {
  seconds *= kSanitizerFactor;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  bool open = true;
  while (!ended() || open) {
    if (open) open = read_some(0.02);
    if (!open) std::this_thread::sleep_for(5ms);
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "the program hangs: no end after " << seconds << " s\nstdout: " << finished_.out
                    << "\nstderr: " << finished_.err;
      kill_members();
      ::waitpid(pid_, nullptr, 0);
      reaped_ = true;
      finished_.status = -1;
      break;
    }
  }
  finished_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  return finished_;
}

pid_t Process::rank(int rank) const {
  for (const pid_t member : members()) {
    if (has_variable(environment_of(member), "OMPI_COMM_WORLD_RANK=" + std::to_string(rank))) return member;
  }
  return -1;
}

std::vector<pid_t> Process::members() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t process = std::stoi(name);
    if (has_variable(environment_of(process), mark_)) found.push_back(process);
  }
  return found;
}

void Process::kill_members() const {
  for (const pid_t member : members()) ::kill(member, SIGKILL);
}

std::size_t sleeps_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  std::size_t sleeps = 0;
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kField = "voluntary_ctxt_switches:";
    if (line.starts_with(kField)) sleeps = std::stoul(line.substr(kField.size()));
  }
  return sleeps;
}

std::vector<std::string> by_rank(std::vector<std::string> mpirun,
                                 const std::vector<std::vector<std::string>>& commands) {
  std::string script = "case $OMPI_COMM_WORLD_RANK in";
  for (std::size_t rank = 0; rank < commands.size(); ++rank) {
    script += " " + std::to_string(rank) + ") exec";
    for (const std::string& word : commands[rank]) {
      std::string quoted;
      for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      script += " '" + quoted + "'";
    }
    script += ";;";
  }
  mpirun.insert(mpirun.end(), {"sh", "-c", script + " esac"});
  return mpirun;
}

double processor_seconds(pid_t process) {
  const std::string text = file_text("/proc/" + std::to_string(process) + "/stat");
  // The name in brackets may contain spaces. The times are the 12th and 13th field after it.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int field = 0; field < 11; ++field) fields >> skipped;
  double user = 0.0;
  double system = 0.0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace tp::test
