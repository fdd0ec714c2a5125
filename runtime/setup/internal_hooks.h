// Hooks for this project's own benchmarks.
#pragma once

#include "tp/draft_source.h"
#include "tp/engine_options.h"

#include <functional>
#include <memory>

namespace tp {

struct InternalHooks {
  // Called once, on rank 0, with the source that `speculation` describes. The returned source is used
  // instead, and may translate between two vocabularies. The engine therefore does not compare the draft
  // model's vocabulary with the model's.
  std::function<std::unique_ptr<DraftSource>(std::unique_ptr<DraftSource>)> wrap_draft_source{};
};

// The hook that wraps draft sources; empty if there is none.
inline std::function<std::unique_ptr<DraftSource>(std::unique_ptr<DraftSource>)> draft_wrapper(
    const EngineHooks& hooks) {
  return hooks.internal ? hooks.internal->wrap_draft_source : nullptr;
}

}  // namespace tp
