#include "parallel/machine/mca_parameters.h"

#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

namespace tp {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// The last assignment in the file wins. Empty if the file is unreadable or does not set the parameter.
std::string last_value_in(const std::filesystem::path& file, std::string_view name) {
  std::ifstream lines(file);
  std::string value;
  for (std::string line; std::getline(lines, line);) {
    const std::string_view all = line;
    const std::string_view text = all.substr(0, all.find('#'));
    const std::size_t sign = text.find('=');
    if (sign != std::string_view::npos && trimmed(text.substr(0, sign)) == name)
      value = trimmed(text.substr(sign + 1));
  }
  return value;
}

// A value that begins with ^ excludes components but selects none.
bool is_choice(std::string_view value) { return !value.empty() && value.front() != '^'; }

}  // namespace

std::vector<std::filesystem::path> mca_parameter_files() {
  std::vector<std::filesystem::path> files;
  if (const char* const home = std::getenv("HOME"); home != nullptr)
    files.push_back(std::filesystem::path(home) / ".openmpi" / "mca-params.conf");
  // The system-wide file of the Open MPI installation that this program was compiled with.
  files.push_back(std::filesystem::path(TP_OPEN_MPI_SYSCONFDIR) / "openmpi-mca-params.conf");
  return files;
}

std::string mca_parameter(const std::vector<std::filesystem::path>& files, std::string_view name) {
  for (const std::filesystem::path& file : files) {
    if (std::string value = last_value_in(file, name); !value.empty()) return value;
  }
  return {};
}

std::string mca_without(std::string_view components, std::string_view framework,
                        const std::vector<std::filesystem::path>& files) {
  const std::string found = mca_parameter(files, framework);
  if (is_choice(found) || is_choice(mca_parameter(files, "pml"))) return {};
  return found.empty() ? fmt::format("^{}", components) : fmt::format("^{},{}", components, found.substr(1));
}

}  // namespace tp
