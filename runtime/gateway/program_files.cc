#include "runtime/gateway/program_files.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

// The file that execvp runs; the name itself if there is none.
fs::path found_in_path(const std::string& name) {
  const char* const variable = std::getenv("PATH");
  if (name.find('/') != std::string::npos || variable == nullptr) return name;
  std::istringstream folders(variable);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return name;
}

std::string identity_of(const fs::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) return "none";
  return fmt::format("{}:{}:{}:{}.{:09}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

}  // namespace

std::string identity_of_programs(const std::vector<std::string>& command) {
  std::string identity;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const bool is_program = i == 0 || fs::path(command[i]).filename() == "tp-infer";
    if (is_program) identity += identity_of(found_in_path(command[i])) + ";";
  }
  return identity;
}

}  // namespace tp
