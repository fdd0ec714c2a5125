// The parts of an engine that only rank 0 has.
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "parallel/machine/sha256.h"
#include "runtime/scheduling/leader.h"
#include "runtime/scheduling/leader_options.h"
#include "runtime/scheduling/mode.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/speculation/speculator.h"
#include "tp/engine_info.h"
#include "tp/event.h"
#include "tp/leader_status.h"
#include "tp/request.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace tp {

struct RankZero {
  // Without a speculator, steps have no draft tokens.
  RankZero(std::optional<Tokenizer> loaded, const EnginePlan& plan, const EngineInfo& info,
           std::unique_ptr<Speculator> speculator);

  // Call it before the first step. `ranks`: all ranks of the engine.
  void open_store(const EnginePlan& plan, const Sha256Digest& fingerprint, std::size_t ranks);

  // These members throw like those of Leader, and are thread-safe.
  RequestId submit(Request request, EventSink sink);
  void cancel(RequestId request);
  LeaderStatus status() const;

  std::optional<Tokenizer> tokenizer;
  Leader leader;
  std::unique_ptr<Mode> mode;      // answers the requests that need several passes
  std::vector<TokenEvent> events;  // events of requests without a sink, since the last step
  double apply_seconds = 0.0;      // since the statistics were reset

 private:
  RankZero(std::optional<Tokenizer> loaded, const LeaderOptions& options,
           std::unique_ptr<Speculator> speculator);
};

}  // namespace tp
