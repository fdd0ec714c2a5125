#include "model/layers/attention/chosen_attention.h"

#include "model/layers/attention/host_attention.h"
#include "tp/internal/threads.h"

#include <vector>

#include <omp.h>

namespace tp {
namespace {

using kernels::AttentionSpan;

// A cache for copies of the latents that the tokens of a group attend to. Each token has its own blocks.
class ChosenLatents {
 public:
  // `max`: positions that a token attends to.
  ChosenLatents(const kernels::PagedCache& cache, std::size_t max, std::size_t tokens, Workspace& workspace)
      : blocks_((max + cache.layout.block_size - 1) / cache.layout.block_size) {
    copy_.layout = cache.layout;
    copy_.layout.index_dim = 0;
    copy_.layout.index_pool = 1;
    copy_.stride = copy_.layout.head_bytes();
    const TensorView<float> memory = workspace.take(tokens * blocks_, copy_.stride / sizeof(float));
    copy_.base = reinterpret_cast<std::byte*>(memory.data());
    for (std::size_t block = 0; block < tokens * blocks_; ++block)
      table_.push_back(static_cast<std::int32_t>(block));
  }

  const kernels::PagedCache& cache() const { return copy_; }
  std::size_t blocks() const { return blocks_; }

  // Copies the positions that a token has chosen. `token`: its number in the group.
  void copy(const kernels::PagedCache& from, std::span<const std::int32_t> block_table,
            std::span<const std::int32_t> positions, std::size_t token) const {
    kernels::copy_latents(from, block_table, positions, copy_, {.first_block = token * blocks_});
  }

  // A span of one token, which sees all copies of its `count` latents.
  AttentionSpan span_of(std::size_t row, std::size_t count, std::size_t token) const {
    return {.first_token = row,
            .tokens = 1,
            .start_position = count - 1,
            .block_table = std::span(table_).subspan(token * blocks_, blocks_)};
  }

 private:
  std::size_t blocks_;  // per token
  kernels::PagedCache copy_;
  std::vector<std::int32_t> table_;
};

void attend_to_copies(const kernels::AttentionArgs& args, const IndexerSpec& indexer,
                      const StepContext& step) {
  const std::size_t max = indexer.max_positions();
  const std::size_t group = std::min(tokens_per_group(), args.query.rows());
  const ChosenLatents latents(args.cache, max, group, step.workspace);
  kernels::AttentionArgs of_group = args;
  of_group.cache = latents.cache();
  of_group.scratch = step.workspace.take_per_thread(
      kernels::attention_scratch(args.kv_of_head, args.cache.layout, latents.blocks()));
  if (args.query.empty()) return;
  const auto attend_to_copies_of = [&](const ChosenGroup& tokens) {
    const auto count = [&](std::size_t i) { return indexer.chosen_positions(tokens.position(i)); };
    std::vector<AttentionSpan> spans;
    for (std::size_t i = 0; i < tokens.count; ++i)
      spans.push_back(latents.span_of(tokens.row() + i, count(i), i));
    for_thread_parts(tokens.count, tokens.count * max * args.cache.layout.row_columns(),
                     [&](std::size_t begin, std::size_t end) {
                       for (std::size_t i = begin; i < end; ++i)
                         latents.copy(args.cache, tokens.span->block_table,
                                      chosen_by(step, tokens.row() + i, count(i)), i);
                     });
    of_group.spans = spans;
    kernels::paged_attention(of_group);
  };
  for (const auto& round : chosen_rounds(args.spans, max)) std::ranges::for_each(round, attend_to_copies_of);
}

}  // namespace

std::size_t tokens_per_group() {
  constexpr std::size_t kMin = 8;
  return std::max(kMin, static_cast<std::size_t>(omp_get_max_threads()));
}

std::size_t max_positions(std::span<const AttentionSpan> spans, std::size_t block_size) {
  std::size_t blocks = 0;
  for (const AttentionSpan& span : spans) blocks = std::max(blocks, span.block_table.size());
  return blocks * block_size;
}

std::vector<std::vector<ChosenGroup>> chosen_rounds(std::span<const AttentionSpan> spans, std::size_t max) {
  std::vector<std::vector<ChosenGroup>> rounds;
  std::size_t number = 0;
  for (const AttentionSpan& span : spans) {
    for (std::size_t first = dense_tokens(span, max); first < span.tokens;) {
      const std::size_t of_round = number % TopLists::kTokens;
      if (of_round == 0) rounds.emplace_back();
      const std::size_t count =
          std::min({tokens_per_group(), span.tokens - first, TopLists::kTokens - of_round});
      rounds.back().push_back({&span, first, count, number});
      first += count;
      number += count;
    }
  }
  return rounds;
}

bool attend_if_short(const kernels::AttentionArgs& args, std::size_t max, bool has_waited,
                     const StepContext& step) {
  std::vector<AttentionSpan> dense;
  for (const AttentionSpan& span : args.spans) {
    AttentionSpan first = span;
    first.tokens = dense_tokens(span, max);
    if (first.tokens != 0) dense.push_back(first);
  }
  kernels::AttentionArgs of_dense = args;
  of_dense.spans = dense;
  const bool are_all_short = max_positions(args.spans, args.cache.layout.block_size) <= max;
  if (are_all_short || !dense.empty())
    attend(of_dense, step);
  else if (!has_waited)
    wait_for_host(step);
  return !are_all_short;
}

void attend_to_chosen(const kernels::AttentionArgs& args, const IndexerSpec& indexer,
                      const StepContext& step) {
  const bool has_waited = !indexer.is_shared;  // a layer's own indexer has waited
  if (!attend_if_short(args, indexer.max_positions(), has_waited, step)) return;
  const Workspace::Frame frame(step.workspace);
  attend_to_copies(args, indexer, step);
}

}  // namespace tp
