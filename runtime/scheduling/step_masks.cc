#include "runtime/scheduling/step_masks.h"

#include "runtime/constraint/request_constraint.h"
#include "runtime/scheduling/sequence.h"
#include "tp/error.h"

#include <exception>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tp {
namespace {

using MaskTask = std::packaged_task<TokenMask()>;
using MaskTasks = std::vector<MaskTask>;

// The constraint's mask for the token after the sequence's tokens and these drafts. If the constraint has not
// computed this mask before, the work is appended to `slow`.
std::shared_future<TokenMask> constraint_mask(const Sequence& sequence, std::span<const TokenId> drafts,
                                              MaskTasks& slow) {
  constraint::Progress progress = sequence.constraint_progress();
  for (const TokenId draft : drafts) progress = sequence.state->constraint->after(progress, draft);
  const auto compute = [state = sequence.state, progress] { return state->constraint->allowed(progress); };
  if (sequence.state->constraint->knows(progress)) return std::async(std::launch::deferred, compute).share();
  return slow.emplace_back(compute).get_future().share();
}

// The mask from the request's callback, which runs on its own thread because it may take any amount of time.
std::shared_future<TokenMask> function_mask(const Sequence& sequence) {
  const auto first = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(sequence.prompt_tokens());
  std::vector<TokenId> generated(first, sequence.tokens.end());
  const auto compute = [state = sequence.state, generated = std::move(generated)] {
    return state->request.allowed_tokens(generated);
  };
  return std::async(std::launch::async, compute).share();
}

std::shared_future<TokenMask> start_mask(const Sequence& sequence, std::span<const TokenId> drafts,
                                         MaskTasks& slow) {
  try {
    return sequence.state->constraint ? constraint_mask(sequence, drafts, slow) : function_mask(sequence);
  } catch (...) {  // out of threads or memory
    std::promise<TokenMask> none;
    none.set_exception(std::current_exception());
    return none.get_future().share();
  }
}

// Whether the constraint allows the token. It may, for example, forbid ending the thinking in the middle of a
// character.
bool allows(const Sequence& sequence, TokenId token) {
  if (!sequence.state->constraint) return true;
  try {
    const constraint::Progress next =
        sequence.state->constraint->after(sequence.constraint_progress(), token);
    return next.state != constraint::kDead;
  } catch (const RequestError&) {  // the constraint has become too large; its mask reports the error
    return false;
  }
}

std::shared_future<TokenMask> mask_of(TokenId only, std::size_t vocab_size) {
  TokenMask mask(vocab_size);
  mask.add(only);
  std::promise<TokenMask> promise;
  promise.set_value(std::move(mask));
  return promise.get_future().share();
}

void run_all(MaskTasks& tasks) {
  for (MaskTask& task : tasks) task();
}

}  // namespace

StepMasks::StepMasks(const PlannedStep& planned, std::size_t vocab_size) {
  const auto slow = std::make_shared<MaskTasks>();
  for (const PlannedStep::Chunk& chunk : planned.chunks) {
    const std::optional<TokenId> forced = chunk.sequence->forced_next();
    for (std::size_t i = 0; i < chunk.outputs; ++i) {
      const std::size_t output = chunk.first_output + i;
      const auto* choose = std::get_if<want::Choose>(&planned.forward.outputs[output].want);
      if (choose == nullptr || !choose->masked) continue;
      const auto drafts = std::span(chunk.drafts).first(std::min(i, chunk.drafts.size()));
      const bool is_forced = forced && allows(*chunk.sequence, *forced);
      masks_[output] = is_forced ? mask_of(*forced, vocab_size) : start_mask(*chunk.sequence, drafts, *slow);
    }
  }
  if (slow->empty()) return;
  try {
    work_ = std::async(std::launch::async, [slow] { run_all(*slow); }).share();
  } catch (...) {  // out of threads or memory
    run_all(*slow);
  }
}

TokenMask StepMasks::await(std::size_t output) const noexcept {
  try {
    return masks_.at(output).get();
  } catch (...) {
    return {};  // Leader::apply_results reports the error
  }
}

void StepMasks::check(std::size_t output) const {
  if (const auto mask = masks_.find(output); mask != masks_.end()) mask->second.get();
}

void start_masks(PlannedStep& planned, std::size_t vocab_size) {
  const auto masks = std::make_shared<const StepMasks>(planned, vocab_size);
  if (masks->empty()) return;
  planned.masks = masks;
  planned.forward.masks = [masks](std::size_t output) { return masks->await(output); };
}

}  // namespace tp
