#include "runtime/engine/measured_rows.h"

#include "model/memory/cache_groups.h"
#include "parallel/exchange/collectives.h"
#include "parallel/machine/stopwatch.h"

#include <algorithm>
#include <array>

namespace tp {
namespace {

constexpr std::array<std::size_t, 6> kRows = {1, 2, 4, 8, 16, 32};
constexpr std::size_t kRepeats = 3;

// A step of a new sequence, which takes as long as a step after few tokens.
Forward step_of(std::size_t rows, const EnginePlan& plan, const CacheGroups& groups) {
  constexpr TokenId kStride = 7919;  // spreads token ids, so that they choose different experts
  Forward forward;
  SequenceChunk chunk{.tokens = static_cast<std::uint32_t>(rows), .start = SequenceStart()};
  chunk.start->sampling.temperature = 0.0F;
  const std::size_t blocks =
      groups.windows.size() * ((rows + plan.options.block_size - 1) / plan.options.block_size);
  for (std::size_t i = 0; i < blocks; ++i) chunk.new_blocks.push_back(static_cast<BlockId>(i));
  if (plan.cache_shape(groups).states != 0) chunk.state.slot = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    forward.tokens.push_back(
        static_cast<TokenId>(row * static_cast<std::size_t>(kStride) % plan.config.vocab_size));
    forward.outputs.push_back({0, {static_cast<std::uint32_t>(row), 1}, want::Choose{}});
  }
  forward.chunks.push_back(std::move(chunk));
  return forward;
}

// Whether the cache and a step have room for this many rows.
bool fits(std::size_t rows, const EnginePlan& plan, const CacheGroups& groups) {
  const std::size_t blocks =
      groups.windows.size() * ((rows + plan.options.block_size - 1) / plan.options.block_size);
  return rows <= plan.options.prefill_chunk && rows <= plan.options.max_length && blocks <= plan.cache_blocks;
}

double seconds_of(Forward forward, Communicator& comm, Worker& worker) {
  const Stopwatch watch;
  worker.run(Command(std::move(forward)));
  if (comm.is_root() && !worker.pipeline().stage().is_whole()) worker.pipeline().receive_results();
  return watch.seconds();
}

// Measures in rounds, so that a brief disturbance does not raise a single point. The shortest times count.
std::vector<RowCosts::Point> measure_rows(Communicator& comm, Worker& worker, const EnginePlan& plan) {
  const CacheGroups groups = plan.cache_groups(plan.spec());
  std::vector<RowCosts::Point> points;
  for (const std::size_t rows : kRows) {
    if (rows == 1 || fits(rows, plan, groups)) points.push_back({.rows = rows});
  }
  for (std::size_t round = 0; round <= kRepeats; ++round) {
    for (RowCosts::Point& point : points) {
      const double seconds = seconds_of(step_of(point.rows, plan, groups), comm, worker);
      // The first round only touches all memory.
      if (round == 1) point.seconds = seconds;
      if (round > 1) point.seconds = std::min(point.seconds, seconds);
    }
  }
  seconds_of({.tokens = {}, .chunks = {}, .outputs = {}, .ended = {0}}, comm, worker);
  worker.run(ResetStatistics());
  return points;
}

}  // namespace

std::optional<RowCosts> measured_row_costs(Communicator& comm, Worker& worker, const EnginePlan& plan) {
  const SpeculationOptions& speculation = plan.options.speculation;
  if (speculation.drafts == DraftKind::none || speculation.always) return std::nullopt;
  return RowCosts(measure_rows(comm, worker, plan));
}

}  // namespace tp
