#include "launch/ranks/engine_command.h"

#include "launch/ranks/open_engine.h"
#include "launch/ranks/rank_program.h"
#include "parallel/exchange/fail_together.h"

namespace tp {

int run_engine_command(const CLI::App& command, const EngineFlags& flags, Task task,
                       const std::function<void()>& prepare, const std::function<void(Engine&)>& compute) {
  return run_on_ranks(CommandLine::of(command), flags.timeout, [&](Communicator& comm) {
    fail_together(comm, [&] {
      if (comm.is_root()) prepare();
    });
    const std::unique_ptr<Engine> engine = open_engine(comm, flags, task);
    return lead_or_follow(comm, *engine, flags.verbose, [&] {
      compute(*engine);
      return 0;
    });
  });
}

}  // namespace tp
