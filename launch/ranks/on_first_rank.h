// Callback of a subcommand that needs no ranks.
#pragma once

#include "launch/ranks/engine_notices.h"
#include "launch/ranks/rank_program.h"
#include "model/files/file_notices.h"

#include <functional>
#include <utility>

#include <CLI/CLI.hpp>

namespace tp {

// Returns a callback that does `work` on the first rank, even if mpirun has started several ranks. The other
// ranks keep `work` too, because it owns the variables that options are parsed into. Notices about the
// model's files follow.
inline std::function<void()> on_first_rank(const CLI::App& command, std::function<void()> work) {
  return [&command, work = std::move(work)] {
    run_on_first_rank(CommandLine::of(command), [&work] {
      work();
      print_file_notices(take_file_notices());
    });
  };
}

}  // namespace tp
