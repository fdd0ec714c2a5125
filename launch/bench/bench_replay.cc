#include "launch/bench/bench_replay.h"

#include "runtime/setup/internal_hooks.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tp {

std::size_t BenchReplay::longest() const {
  std::size_t longest = 0;
  for (const RealText& text : texts) longest = std::max(longest, text.prompt.size() + text.tokens.size());
  return longest;
}

void BenchReplay::add_to(EngineOptions& options, EngineHooks& hooks, std::size_t vocab_size) const {
  if (options.speculation.drafts == DraftKind::none) options.speculation.drafts = DraftKind::ngram;
  const auto wrap = [replayed = replayed, vocab_size](std::unique_ptr<DraftSource> source) {
    return std::make_unique<ReplaySource>(replayed, std::move(source), vocab_size);
  };
  hooks.internal = std::make_shared<InternalHooks>(InternalHooks{.wrap_draft_source = wrap});
}

ReplayTurns measure_replay_turns(Engine& engine, const BenchReplay& replay, BenchRun run, std::size_t first,
                                 std::size_t turns) {
  std::vector<const RealText*> texts;
  for (std::size_t i = 0; i < run.batch; ++i)
    texts.push_back(&replay.texts[(first + i) % replay.texts.size()]);
  run.prompt = texts.front()->prompt.size();
  const std::string name = run.batch == 1 ? texts.front()->name : fmt::format("{} texts", run.batch);
  ReplayTurns all;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    ReplayRows rows = measure_replay(engine, run, texts, *replay.replayed);
    rows.plain.text = rows.drafted.text = name;
    all.plain.push_back(std::move(rows.plain));
    all.drafted.push_back(std::move(rows.drafted));
    run.first += run.batch;
  }
  return all;
}

std::string ReplayTurns::summary() const {
  std::vector<double> ratios;
  for (std::size_t turn = plain.size() > 1 ? 1 : 0; turn < plain.size(); ++turn)
    ratios.push_back(drafted[turn].tokens_per_second() / plain[turn].tokens_per_second());
  std::ranges::sort(ratios);
  const BenchRow& last = drafted.back();
  const auto draft_tokens = static_cast<double>(last.speculation.drafted_tokens());
  const auto accepted = static_cast<double>(last.speculation.accepted_tokens());
  return fmt::format(
      "{}: {:.2f} times as fast with drafts ({:.2f} to {:.2f} in {} turns), {:.2f} tokens of a text in a "
      "step, "
      "{:.0f} of {:.0f} draft tokens accepted\n",
      last.text, ratios[ratios.size() / 2], ratios.front(), ratios.back(), ratios.size(),
      static_cast<double>(last.tokens) / static_cast<double>(last.steps * last.batch), accepted,
      draft_tokens);
}

}  // namespace tp
