#include "tests/launch/run_line.h"

#include <cstdlib>

namespace tp::test {

Finished run_line(const std::string& line, const std::filesystem::path& folder) {
  const std::string programs = std::filesystem::path(TP_INFER_PROGRAM).parent_path().string();
  const StartOptions options{
      .folder = folder,
      .variables = {"PATH=" + programs + ":" + std::getenv("PATH"), "OMPI_MCA_rmaps_base_oversubscribe=1",
                    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe", "OMP_NUM_THREADS=1"}};
  return Process({"bash", "-ec", line}, options).finish(120);
}

}  // namespace tp::test
