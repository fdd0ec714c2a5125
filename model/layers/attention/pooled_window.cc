#include "model/layers/attention/pooled_window.h"

#include "model/layers/attention/chosen_attention.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <numeric>

namespace tp {
namespace {

// The most latents that a token of the step reads.
std::size_t max_latents(const CompressedAttentionSpec& spec, const StepContext& step,
                        const kernels::PagedCache& cache) {
  const std::size_t pools = max_positions(step.spans(), cache.layout.block_size) / spec.pool;
  return spec.window + (spec.indexer ? std::min(pools, spec.indexer->pools()) : pools);
}

}  // namespace

PooledWindow::PooledWindow(const CompressedAttentionSpec& spec, const RecentRows& window,
                           TensorView<const float> latent, const StepContext& step,
                           const kernels::PagedCache& cache)
    : spec_(spec),
      window_(window),
      latent_(latent),
      step_(step),
      cache_(cache),
      group_(std::min(tokens_per_group(), latent.rows())) {
  copies_.layout = cache.layout;
  copies_.layout.index_dim = 0;
  copies_.layout.index_pool = 1;
  copies_.layout.pools_latents = false;
  copies_.stride = copies_.layout.head_bytes();
  const std::size_t size = copies_.layout.block_size;
  blocks_ = (max_latents(spec, step, cache) + size - 1) / size;
  const TensorView<float> memory = step.workspace.take(group_ * blocks_, copies_.stride / sizeof(float));
  copies_.base = reinterpret_cast<std::byte*>(memory.data());
  table_.resize(group_ * blocks_);
  std::iota(table_.begin(), table_.end(), 0);
}

std::vector<std::int32_t> PooledWindow::pools_of(const Token& token) const {
  const std::size_t seen = (token.position + 1) / spec_.pool;
  if (spec_.indexer && seen > spec_.indexer->dense_pools()) {
    const std::span<const std::int32_t> chosen =
        chosen_by(step_, token.row, spec_.indexer->chosen_pools(seen));
    return {chosen.begin(), chosen.end()};
  }
  std::vector<std::int32_t> all(seen);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::size_t PooledWindow::copy(const kernels::RecurrentRun& run, const Token& token,
                               std::size_t place) const {
  std::vector<const float*> rows;
  const std::size_t first = token.position + 1 - std::min(token.position + 1, spec_.window);
  for (std::size_t position = first; position <= token.position; ++position)
    rows.push_back(window_.row_of(run, position, latent_));
  kernels::write_latents(rows, copies_, {.first_block = place * blocks_});
  const std::vector<std::int32_t> pools = pools_of(token);
  kernels::copy_latents(cache_, step_.spans()[token.sequence].block_table, pools, copies_,
                        {.first_block = place * blocks_, .first_slot = rows.size()});
  return rows.size() + pools.size();
}

void PooledWindow::attend(kernels::AttentionArgs args) const {
  if (latent_.empty()) return;
  const RecurrentRuns runs(step_, window_.offset());
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < runs.all().size(); ++i) {
    const kernels::RecurrentRun& run = runs.all()[i];
    for (std::size_t token = 0; token < run.tokens; ++token)
      tokens.push_back({i, run.first_token + token, run.position + token});
  }
  for (std::size_t begin = 0; begin < tokens.size(); begin += group_) {
    const std::span<const Token> group(tokens.data() + begin, std::min(group_, tokens.size() - begin));
    std::vector<kernels::AttentionSpan> spans(group.size());
    for_thread_parts(group.size(), group.size() * blocks_ * copies_.stride,
                     [&](std::size_t from, std::size_t to) {
                       for (std::size_t i = from; i < to; ++i) {
                         const std::size_t count = copy(runs.all()[group[i].sequence], group[i], i);
                         spans[i] = {.first_token = group[i].row,
                                     .tokens = 1,
                                     .start_position = count - 1,
                                     .block_table = std::span(table_).subspan(i * blocks_, blocks_)};
                       }
                     });
    args.spans = spans;
    kernels::paged_attention(args);
  }
}

}  // namespace tp
