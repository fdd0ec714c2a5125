// Sequences whose keys and values lie in the blocks of a paged cache, in random order.
#pragma once

#include "model/kernels/attention.h"
#include "model/kernels/half.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <omp.h>

namespace tp::test {

struct CacheShape {
  std::size_t kv_heads = 1;
  std::size_t key_dim = 8;
  std::size_t block_size = 4;
  KvType type = KvType::f32;
  std::size_t value_dim = 0;  // 0: equal to key_dim
  bool latent = false;
};

// Returns the kernel's options that the reference supports.
inline reference::Pattern reference_of(const kernels::AttentionPattern& pattern) {
  return {.causal = pattern.causal,
          .window = pattern.window,
          .chunk = pattern.chunk,
          .chunks_before = pattern.chunks_before};
}

// A cache filled with NaN, which reveals reads of unwritten slots.
class PagedSequences {
 public:
  PagedSequences(std::uint64_t seed, CacheShape shape, const std::vector<std::size_t>& lengths)
      : random_(seed), shape_(shape), lengths_(lengths) {
    std::size_t blocks = 3;  // unused blocks
    for (const std::size_t length : lengths) blocks += blocks_for(length);
    std::vector<std::int32_t> free(blocks);
    for (std::size_t i = 0; i < blocks; ++i) free[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = blocks; i > 1; --i) std::swap(free[i - 1], free[random_.integer(0, i - 1)]);
    const kernels::KvLayout layout{shape.type,    shape.kv_heads, shape.block_size,
                                   shape.key_dim, value_dim(),    shape.latent};
    // Bytes of 0xff are NaN in f32 and bf16. int8 has no NaN, but its scales do.
    memory_.assign(blocks * layout.block_bytes(), std::byte{0xff});
    cache_ = {layout, memory_.data(), layout.block_bytes()};
    for (const std::size_t length : lengths) {
      tables_.emplace_back(free.end() - static_cast<std::ptrdiff_t>(blocks_for(length)), free.end());
      free.resize(free.size() - blocks_for(length));
      keys_.push_back(std::make_unique<reference::RandomTensor>(random_, length,
                                                                shape.kv_heads * layout.stored_key_dim()));
      values_.push_back(
          std::make_unique<reference::RandomTensor>(random_, length, shape.kv_heads * value_dim()));
    }
  }

  std::size_t blocks_for(std::size_t tokens) const {
    return (tokens + shape_.block_size - 1) / shape_.block_size;
  }
  std::size_t value_dim() const { return shape_.value_dim == 0 ? shape_.key_dim : shape_.value_dim; }
  const kernels::PagedCache& cache() const { return cache_; }
  const std::vector<std::byte>& memory() const { return memory_; }
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

  // Reads a sequence's keys from the cache by the layout's description: [length, kv_heads * key_dim].
  reference::Matrix cached_keys(std::size_t sequence) const {
    const std::size_t dim = shape_.key_dim;
    reference::Matrix out(lengths_[sequence], shape_.kv_heads * dim);
    if (shape_.latent) return cached_latents(sequence);
    for_slots(sequence,
              [&](std::size_t position, std::size_t head, const std::byte* block, std::size_t slot) {
                const std::byte* panel = block + slot / 16 * cache_.layout.key_panel_bytes();
                for (std::size_t d = 0; d < dim; ++d) {
                  const std::size_t index = (d / step() * 16 + slot % 16) * step() + d % step();
                  out(position, head * dim + d) =
                      element(panel, index) * scale(block, cache_.layout.key_scales_offset(), slot);
                }
              });
    return out;
  }
  // Reads a sequence's values from the cache: [length, kv_heads * value_dim].
  reference::Matrix cached_values(std::size_t sequence) const {
    reference::Matrix out(lengths_[sequence], shape_.kv_heads * value_dim());
    for_slots(sequence,
              [&](std::size_t position, std::size_t head, const std::byte* block, std::size_t slot) {
                for (std::size_t d = 0; d < value_dim(); ++d) {
                  out(position, head * value_dim() + d) =
                      row_element(block, slot, d) * scale(block, cache_.layout.value_scales_offset(), slot);
                }
              });
    return out;
  }

  // Checks the attention of the last `queries[s]` tokens of every sequence s, in one ragged batch, against
  // the reference on the cache's contents. Blocks that have left the window contain NaN.
  void expect_attention(const std::vector<std::size_t>& queries, const std::vector<std::size_t>& kv_of_head,
                        kernels::AttentionPattern pattern, double tolerance, float softcap = 0.0F,
                        std::span<const float> alibi_slopes = {}, const std::vector<bool>& bidirectional = {},
                        std::span<const float> sinks = {}) {
    std::vector<kernels::AttentionSpan> spans;
    std::size_t tokens = 0;
    std::size_t max_blocks = 0;
    for (std::size_t s = 0; s < lengths_.size(); ++s) {
      store(s, 0, lengths_[s]);
      const bool both_ways = !bidirectional.empty() && bidirectional[s];
      spans.push_back({tokens, queries[s], lengths_[s] - queries[s], tables_[s], both_ways});
      tokens += queries[s];
      max_blocks = std::max(max_blocks, tables_[s].size());
    }
    const reference::RandomTensor query(random_, tokens, kv_of_head.size() * shape_.key_dim, 3);
    const reference::RandomTensor out(random_, tokens, kv_of_head.size() * value_dim(), 1);
    // Six bits, so the product with the scale is exact in bf16.
    for (std::size_t t = 0; t < tokens; ++t) {
      for (float& q : std::span(query.view().row(t), query.view().columns()))
        q = std::round(q * 32.0F) / 32.0F;
    }
    reference::Pattern expected_pattern = reference_of(pattern);
    expected_pattern.softcap = softcap;
    expected_pattern.alibi_slopes = alibi_slopes;
    expected_pattern.sinks = sinks;
    std::vector<reference::Matrix> expected;
    for (std::size_t s = 0; s < lengths_.size(); ++s) {
      expected_pattern.causal = pattern.causal && !spans[s].bidirectional;
      expected.push_back(reference::attention(
          reference::Matrix(query.view().rows_from(spans[s].first_token, queries[s])), cached_keys(s),
          cached_values(s), kv_of_head, shape_.key_dim, expected_pattern, kScale));
      lose_unseen_blocks(s, spans[s].start_position, pattern);
    }
    attend(query.view(), spans, kv_of_head, pattern, max_blocks, out.view(), softcap, alibi_slopes, sinks);
    for (std::size_t s = 0; s < lengths_.size(); ++s) {
      EXPECT_CLOSE(out.view().rows_from(spans[s].first_token, queries[s]), expected[s], tolerance)
          << "sequence " << s << " of " << lengths_[s] << " tokens, " << queries[s]
          << " of them queries, cache " << name_of(shape_.type);
    }
  }

  // Runs the kernel with exactly attention_scratch floats, and guards after every thread's scratch.
  void attend(TensorView<const float> query, const std::vector<kernels::AttentionSpan>& spans,
              const std::vector<std::size_t>& kv_of_head, kernels::AttentionPattern pattern,
              std::size_t max_blocks, TensorView<float> out, float softcap = 0.0F,
              std::span<const float> alibi_slopes = {}, std::span<const float> sinks = {}) const {
    constexpr float kGuard = 12345.0F;
    constexpr std::size_t kGuards = 1024;  // a whole number of cache lines
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    const std::size_t scratch = kernels::attention_scratch(kv_of_head, cache_.layout, max_blocks);
    const std::size_t stride = scratch + kGuards;
    std::vector<float> memory(threads * stride, kGuard);
    kernels::paged_attention({.query = query,
                              .cache = cache_,
                              .spans = spans,
                              .kv_of_head = kv_of_head,
                              .pattern = pattern,
                              .scale = static_cast<float>(kScale),
                              .softcap = softcap == 0.0F ? std::nullopt : std::optional(softcap),
                              .alibi_slopes = alibi_slopes,
                              .sinks = sinks,
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
  // Overwrites the blocks that no token from `position` on sees.
  void lose_unseen_blocks(std::size_t sequence, std::size_t position, kernels::AttentionPattern pattern) {
    if (!pattern.causal || !pattern.reach()) return;
    const std::size_t reach = *pattern.reach();
    std::size_t first_seen = position < reach ? 0 : position + 1 - reach;
    if (pattern.chunk) {
      const std::size_t chunk = position / *pattern.chunk;
      const std::size_t first = chunk - std::min(chunk, pattern.chunks_before);
      first_seen = std::max(first_seen, first * *pattern.chunk);
    }
    const std::size_t bytes = cache_.layout.block_bytes();
    for (std::size_t i = 0; i < first_seen / shape_.block_size; ++i)
      std::fill_n(memory_.data() + static_cast<std::size_t>(tables_[sequence][i]) * bytes, bytes,
                  std::byte{0xff});
  }

  // A value is followed by the rest of the key, from the next whole vector on.
  reference::Matrix cached_latents(std::size_t sequence) const {
    const std::size_t dim = shape_.key_dim;
    const kernels::KvLayout& layout = cache_.layout;
    reference::Matrix out(lengths_[sequence], shape_.kv_heads * dim);
    for_slots(
        sequence, [&](std::size_t position, std::size_t head, const std::byte* block, std::size_t slot) {
          for (std::size_t d = 0; d < dim; ++d) {
            const bool is_value = d < value_dim();
            const std::size_t column = is_value ? d : layout.value_columns() + d - value_dim();
            const std::size_t scales = is_value ? layout.value_scales_offset() : layout.key_scales_offset();
            out(position, head * dim + d) = row_element(block, slot, column) * scale(block, scales, slot);
          }
        });
    return out;
  }

  double row_element(const std::byte* block, std::size_t slot, std::size_t column) const {
    const std::size_t columns = cache_.layout.row_columns();
    return element(block + cache_.layout.values_offset(),
                   (slot / step() * columns + column) * step() + slot % step());
  }

  // body(position, head, the head's part of the block, slot)
  template <class Body>
  void for_slots(std::size_t sequence, const Body& body) const {
    for (std::size_t position = 0; position < lengths_[sequence]; ++position) {
      const auto block = static_cast<std::size_t>(tables_[sequence][position / shape_.block_size]);
      for (std::size_t head = 0; head < shape_.kv_heads; ++head)
        body(position, head, cache_.head(block, head), position % shape_.block_size);
    }
  }

  // Elements that are stored together. Repeats the layout's description on purpose.
  std::size_t step() const {
    if (shape_.type == KvType::f32) return 1;
    if (shape_.type == KvType::bf16) return 2;
    return shape_.latent ? 1 : 4;
  }

  double element(const std::byte* base, std::size_t index) const {
    switch (shape_.type) {
      case KvType::f32:
        return reinterpret_cast<const float*>(base)[index];
      case KvType::bf16:
        return kernels::bf16_to_float(reinterpret_cast<const std::uint16_t*>(base)[index]);
      default:
        return reinterpret_cast<const std::int8_t*>(base)[index];
    }
  }

  double scale(const std::byte* block, std::size_t offset, std::size_t slot) const {
    return shape_.type == KvType::int8 ? reinterpret_cast<const float*>(block + offset)[slot] : 1.0;
  }

  reference::Random random_;
  CacheShape shape_;
  std::vector<std::size_t> lengths_;
  std::vector<std::byte> memory_;
  kernels::PagedCache cache_;
  std::vector<std::vector<std::int32_t>> tables_;
  std::vector<std::unique_ptr<reference::RandomTensor>> keys_;    // [length, kv_heads * key_dim]
  std::vector<std::unique_ptr<reference::RandomTensor>> values_;  // [length, kv_heads * value_dim]
};

}  // namespace tp::test
