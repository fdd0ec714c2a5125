// Sequences whose keys and values lie in the blocks of a paged cache, in random order.
#pragma once

#include "model/kernels/attention.h"
#include "tests/kernels/expect_close.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include <omp.h>

namespace tp::test {

struct CacheShape {
  std::size_t kv_heads = 1;
  std::size_t head_dim = 8;
  std::size_t block_size = 4;
};

// A cache filled with NaN, so that reading a slot that nobody wrote is seen.
class PagedSequences {
 public:
  PagedSequences(std::uint64_t seed, CacheShape shape, const std::vector<std::size_t>& lengths)
      : random_(seed), shape_(shape), lengths_(lengths) {
    std::size_t blocks = 3;  // that nobody uses
    for (const std::size_t length : lengths) blocks += blocks_for(length);
    std::vector<std::int32_t> free(blocks);
    for (std::size_t i = 0; i < blocks; ++i) free[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = blocks; i > 1; --i) std::swap(free[i - 1], free[random_.integer(0, i - 1)]);
    memory_.assign(blocks * shape.kv_heads * 2 * shape.block_size * shape.head_dim,
                   std::numeric_limits<float>::quiet_NaN());
    cache_ = {memory_.data(), blocks, shape.kv_heads, shape.block_size, shape.head_dim};
    for (const std::size_t length : lengths) {
      tables_.emplace_back(free.end() - static_cast<std::ptrdiff_t>(blocks_for(length)), free.end());
      free.resize(free.size() - blocks_for(length));
      keys_.push_back(std::make_unique<reference::RandomTensor>(random_, length, kv_size()));
      values_.push_back(std::make_unique<reference::RandomTensor>(random_, length, kv_size()));
    }
  }

  std::size_t blocks_for(std::size_t tokens) const {
    return (tokens + shape_.block_size - 1) / shape_.block_size;
  }
  std::size_t kv_size() const { return shape_.kv_heads * shape_.head_dim; }
  const kernels::PagedCache& cache() const { return cache_; }
  const std::vector<float>& memory() const { return memory_; }
  const std::vector<std::int32_t>& table(std::size_t sequence) const { return tables_[sequence]; }
  TensorView<float> key(std::size_t sequence) const { return keys_[sequence]->view(); }
  TensorView<float> value(std::size_t sequence) const { return values_[sequence]->view(); }
  reference::Random& random() { return random_; }

  // Writes the keys and values at the positions [begin, end) of a sequence.
  void store(std::size_t sequence, std::size_t begin, std::size_t end) const {
    const std::vector<kernels::AttentionSpan> spans = {{0, end - begin, begin, tables_[sequence]}};
    kernels::store_keys_values(key(sequence).rows_from(begin, end - begin),
                               value(sequence).rows_from(begin, end - begin), spans, cache_);
  }

  // Attention of the last `queries[s]` tokens of every sequence s, in one ragged batch, and its reference.
  void expect_attention(const std::vector<std::size_t>& queries, const std::vector<std::size_t>& kv_of_head,
                        kernels::AttentionPattern pattern, double tolerance) {
    std::vector<kernels::AttentionSpan> spans;
    std::size_t tokens = 0;
    std::size_t max_blocks = 0;
    for (std::size_t s = 0; s < lengths_.size(); ++s) {
      store(s, 0, lengths_[s]);
      spans.push_back({tokens, queries[s], lengths_[s] - queries[s], tables_[s]});
      tokens += queries[s];
      max_blocks = std::max(max_blocks, tables_[s].size());
    }
    const std::size_t width = kv_of_head.size() * shape_.head_dim;
    const reference::RandomTensor query(random_, tokens, width, 3);
    const reference::RandomTensor out(random_, tokens, width, 1);
    attend(query.view(), spans, kv_of_head, pattern, max_blocks, out.view());
    for (std::size_t s = 0; s < lengths_.size(); ++s) {
      const reference::Matrix expected =
          reference::attention(reference::Matrix(query.view().rows_from(spans[s].first_token, queries[s])),
                               reference::Matrix(key(s)), reference::Matrix(value(s)), kv_of_head,
                               shape_.head_dim, {pattern.causal, pattern.window}, kScale);
      EXPECT_CLOSE(out.view().rows_from(spans[s].first_token, queries[s]), expected, tolerance)
          << "sequence " << s << " of " << lengths_[s] << " tokens, " << queries[s] << " of them queries";
    }
  }

  // The kernel with as much scratch as attention_scratch asks for, and guards behind every thread's.
  void attend(TensorView<const float> query, const std::vector<kernels::AttentionSpan>& spans,
              const std::vector<std::size_t>& kv_of_head, kernels::AttentionPattern pattern,
              std::size_t max_blocks, TensorView<float> out) const {
    constexpr float kGuard = 12345.0F;
    constexpr std::size_t kGuards = 1024;  // a whole number of cache lines
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    // As the layers ask for it: they know how many heads there are, not how they are grouped.
    const std::size_t scratch =
        kernels::attention_scratch(kv_of_head.size(), shape_.head_dim, shape_.block_size, max_blocks);
    const std::size_t stride = scratch + kGuards;
    std::vector<float> memory(threads * stride, kGuard);
    kernels::paged_attention({.query = query,
                              .cache = cache_,
                              .spans = spans,
                              .kv_of_head = kv_of_head,
                              .pattern = pattern,
                              .scale = static_cast<float>(kScale),
                              .scratch = TensorView<float>(memory.data(), threads, scratch, stride),
                              .out = out});
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (i % stride >= scratch) {
        ASSERT_EQ(memory[i], kGuard) << "written " << i % stride - scratch << " floats behind the scratch";
      }
    }
  }

  static constexpr double kScale = 0.75;

 private:
  reference::Random random_;
  CacheShape shape_;
  std::vector<std::size_t> lengths_;
  std::vector<float> memory_;
  kernels::PagedCache cache_;
  std::vector<std::vector<std::int32_t>> tables_;
  std::vector<std::unique_ptr<reference::RandomTensor>> keys_;    // [length, kv_size]
  std::vector<std::unique_ptr<reference::RandomTensor>> values_;  // [length, kv_size]
};

}  // namespace tp::test
