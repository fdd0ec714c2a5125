#include "tests/launch/readme_examples.h"

#include <cstdlib>
#include <fstream>

namespace tp::test {

std::vector<std::string> readmes_lines(const std::string& section) {
  std::ifstream file(std::string(TP_SOURCE_FOLDER) + "/README.md");
  std::vector<std::string> lines;
  bool is_there = false;
  bool is_shell = false;
  for (std::string line; std::getline(file, line);) {
    if (line == section) is_there = true;
    if (is_there && is_shell && line == "```") break;
    if (is_shell) lines.push_back(line.substr(0, line.find("  #")));
    if (is_there && line == "```sh") is_shell = true;
  }
  return lines;
}

Finished run_line(const std::string& line, const std::filesystem::path& folder) {
  const std::string programs = std::filesystem::path(TP_INFER_PROGRAM).parent_path().string();
  const StartOptions options{.folder = folder,
                             .variables = {"PATH=" + programs + ":" + std::getenv("PATH"),
                                           "OMPI_MCA_rmaps_base_oversubscribe=1", "OMP_NUM_THREADS=1"}};
  return Process({"bash", "-ec", line}, options).finish();
}

}  // namespace tp::test
