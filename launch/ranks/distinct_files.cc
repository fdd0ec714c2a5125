#include "launch/ranks/distinct_files.h"

#include "launch/options/model_path.h"
#include "launch/options/speculate_flag.h"
#include "parallel/machine/launcher.h"
#include "tp/internal/require.h"

#include <set>
#include <system_error>

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStandardStream = "-";
const std::set<std::string> kWritten = {"--output", "--trace", "--pid-file", "--kl-base"};

void add_value(const CLI::Option& option, const std::string& value, UsedFiles& files) {
  const std::string name = option.get_name();
  if (kWritten.contains(name))
    files.written.push_back({name, value});
  else if (option.get_type_name().starts_with("FILE"))
    files.read.push_back({name, value});
  else if (name == "--model")
    files.models.front() = value;
  else if (name == "--speculate")
    files.models.push_back(draft_model_of(value));
  else if (name == "--draft-model")
    files.models.push_back(value);
  else if (name == "--packed-cache")
    files.folders.push_back(value);
}

void add_option(const CLI::Option& option, UsedFiles& files) {
  if (option.count() > 0)
    for (const std::string& value : option.reduced_results()) add_value(option, value, files);
  else if (option.get_name() == "--output")
    files.written.push_back({"--output", kStandardStream});
}

void add_options(const CLI::App& command, UsedFiles& files) {
  for (const CLI::Option* option : command.get_options()) add_option(*option, files);
  // Groups of options are nameless subcommands.
  for (const CLI::App* group :
       command.get_subcommands([](const CLI::App* app) { return app->get_name().empty(); }))
    add_options(*group, files);
}

// Writing to a device or a pipe destroys nothing.
bool is_one_file(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return fs::is_regular_file(one, ignored) && fs::equivalent(one, other, ignored);
}

// Whether both paths lead to the same file. Neither file needs to exist.
bool is_one_destination(const std::string& one, const std::string& other) {
  if (one == kStandardStream || other == kStandardStream) return one == other;
  std::error_code ignored;
  return is_one_file(one, other) || (!fs::exists(one, ignored) && fs::weakly_canonical(one, ignored) ==
                                                                      fs::weakly_canonical(other, ignored));
}

// mpirun forwards its own standard input through a pipe.
bool is_standard_input(const fs::path& file) {
  if (is_one_file(file, "/dev/stdin")) return true;
  const std::optional<Launcher> launcher = find_launcher();
  return launcher && is_one_file(file, fmt::format("/proc/{}/fd/0", launcher->process));
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    files.push_back(entry->path());
  return files;
}

[[noreturn]] void refuse(const UsedFile& written, const std::string& found) {
  throw_error<RequestError>("cannot write {}: expected a separate file for {}, found {}; give another file",
                            written.path, written.option, found);
}

void check(const UsedFile& written, const UsedFiles& files) {
  std::error_code ignored;
  if (written.path == kStandardStream || !fs::is_regular_file(written.path, ignored)) return;
  for (const UsedFile& file : files.read)
    if (is_one_file(written.path, file.path)) refuse(written, "that of " + file.option);
  if (is_standard_input(written.path)) refuse(written, "standard input");
  for (const std::string& model : files.models)
    for (const fs::path& file : model_files(model))
      if (is_one_file(written.path, file)) refuse(written, "one of the model");
  for (const std::string& folder : files.folders)
    for (const fs::path& file : files_in(folder))
      if (is_one_file(written.path, file)) refuse(written, "one of " + folder);
}

}  // namespace

UsedFiles UsedFiles::of(const CLI::App& command) {
  UsedFiles files{.models = {""}};
  add_options(command, files);
  return files;
}

UsedFiles UsedFiles::with(const std::string& option, const std::string& path) const {
  UsedFiles files = *this;
  files.written.push_back({option, path});
  return files;
}

void require_distinct_files(const UsedFiles& files) {
  for (const UsedFile& file : files.written) {
    check(file, files);
    for (const UsedFile& other : files.written) {
      if (&other == &file) break;
      if (is_one_destination(other.path, file.path)) refuse(file, "that of " + other.option);
    }
  }
}

}  // namespace tp
