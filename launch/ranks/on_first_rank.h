// The callback of a subcommand that needs no ranks.
#pragma once

#include "launch/ranks/engine_notices.h"
#include "launch/ranks/rank_program.h"
#include "model/files/file_notices.h"

#include <functional>
#include <utility>

#include <CLI/CLI.hpp>

namespace tp {

// Does `work` on the first rank, should mpirun have started several. The others keep it all the same: it owns
// what options are parsed into. Notices about the model's files follow.
inline std::function<void()> on_first_rank(const CLI::App& command, std::function<void()> work) {
  return [&command, work = std::move(work)] {
    run_on_first_rank(CommandLine::of(command), [&work] {
      work();
      print_file_notices(take_file_notices());
    });
  };
}

}  // namespace tp
