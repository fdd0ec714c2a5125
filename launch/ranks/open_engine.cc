#include "launch/ranks/open_engine.h"

#include "launch/common/message.h"
#include "launch/common/option_names.h"
#include "launch/common/progress.h"
#include "launch/options/model_path.h"
#include "launch/options/speculate_flag.h"
#include "launch/ranks/engine_notices.h"
#include "launch/ranks/model_task.h"
#include "launch/ranks/rank_map.h"
#include "model/files/printable.h"
#include "parallel/exchange/core_notices.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/processors.h"

#include <filesystem>
#include <string>

#include <fmt/format.h>

namespace tp {
namespace {

// Reports options for messages between hosts that have no effect on one host.
void notice_idle_options(const EngineOptions& options) {
  constexpr const char* kText = "tp-infer: {} has no effect, because all ranks are on one host; leave it out";
  if (options.wire != WireType::f32)
    print_message(fmt::format(kText, fmt::format("--wire {}", name_of(options.wire))));
  if (options.two_batch_overlap == TwoBatchOverlap::on)
    print_message(fmt::format(kText, "--two-batch-overlap on"));
}

}  // namespace

std::unique_ptr<Engine> open_engine(Communicator& comm, const EngineFlags& flags, std::optional<Task> task) {
  EngineOptions options = flags.options;
  fail_together(comm, [&] {
    if (!options.synthetic) options.model = find_model(options.model);
    find_draft_model(options.speculation, options.synthetic ? options.model.parent_path() : options.model,
                     comm.is_root());
    if (task && comm.is_root()) require_task(options.model, *task);
    if (task == Task::rank) options.task = "rank";
    if (options.threads == 0) options.threads = default_threads(comm.placement());
  });
  for (const std::string& notice : core_notices(comm, options.threads)) print_message("tp-infer: " + notice);
  EngineHooks hooks = flags.hooks;
  if (!comm.is_root()) return std::make_unique<Engine>(comm, options, hooks);
  std::unique_ptr<Engine> engine;
  {
    const std::string name = std::filesystem::path(options.model / "").parent_path().filename().string();
    ProgressBar bar(fmt::format("loading {}", printable(name)), true);
    hooks.progress = [&](double fraction) { bar.update(fraction); };
    hooks.note = [](const std::string& text) { print_message("tp-infer: " + with_flags(text)); };
    engine = std::make_unique<Engine>(comm, options, hooks);
  }
  print_engine_notices(engine->info(), flags.options);
  const bool generates = !task || *task == Task::generate;
  if (generates && !engine->info().generation_notice.empty())
    print_message("tp-infer: " + engine->info().generation_notice);
  if (comm.local_size() == comm.size()) notice_idle_options(flags.options);
  if (!flags.verbose) return engine;
  print_rank_map(*engine);
  if (!comm.not_shared_because().empty()) {
    print_note(
        fmt::format("all-reduces use MPI messages, not shared memory: {}\n", comm.not_shared_because()));
  }
  return engine;
}

}  // namespace tp
