// Attention with splits that several ranks compute has the bits of paged_attention.
#include "model/kernels/split_attention.h"

#include "model/kernels/attention.h"
#include "model/kernels/attention_scratch.h"
#include "tests/model/kernels/paged_sequences.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

using test::CacheShape;
using test::PagedSequences;

constexpr std::size_t kBlock = 32;

struct SplitCase {
  const char* name;
  CacheShape shape;
  std::vector<std::size_t> kv_of_head;
  bool has_slopes = false;
  bool has_sinks = false;
  std::optional<float> softcap = {};
};

class SplitAttention : public testing::TestWithParam<SplitCase> {
 protected:
  static constexpr std::size_t kRanks = 3;

  SplitAttention() : sequences_(11, GetParam().shape, lengths_) {
    for (std::size_t s = 0; s < lengths_.size(); ++s) {
      sequences_.store(s, 0, lengths_[s]);
      spans_.push_back({tokens_, queries_[s], lengths_[s] - queries_[s], sequences_.table(s)});
      tokens_ += queries_[s];
      max_blocks_ = std::max(max_blocks_, sequences_.table(s).size());
    }
    query_.emplace(sequences_.random(), tokens_, heads() * shape().key_dim, 3);
    for (std::size_t head = 0; head < heads(); ++head) {
      slopes_.push_back(-0.01F * static_cast<float>(head + 1));
      sinks_.push_back(0.3F * static_cast<float>(head));
    }
    const std::size_t scratch =
        kernels::attention_scratch(GetParam().kv_of_head, sequences_.cache().layout, max_blocks_);
    scratch_.resize(static_cast<std::size_t>(omp_get_max_threads()) * scratch);
    std::size_t results = 0;
    for (const kernels::AttentionSpan& span : spans_)
      results += kernels::split_results(span, GetParam().kv_of_head, sequences_.cache().layout);
    results_.assign(results, 0.0F);
  }

  const CacheShape& shape() const { return GetParam().shape; }
  std::size_t heads() const { return GetParam().kv_of_head.size(); }
  TensorView<float> scratch() {
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    return {scratch_.data(), threads, scratch_.size() / threads};
  }

  // The attention of heads [first, first + count), which read `kv_of_head`.
  kernels::AttentionArgs args(std::size_t first, std::span<const std::size_t> kv_of_head,
                              TensorView<float> out) {
    return {
        .query = query_->view().columns_from(first * shape().key_dim, kv_of_head.size() * shape().key_dim),
        .cache = sequences_.cache(),
        .spans = spans_,
        .kv_of_head = kv_of_head,
        .pattern = {},
        .scale = 0.75F,
        .softcap = GetParam().softcap,
        .alibi_slopes = GetParam().has_slopes
                            ? std::span<const float>(slopes_).subspan(first, kv_of_head.size())
                            : std::span<const float>(),
        .sinks = GetParam().has_sinks ? std::span<const float>(sinks_).subspan(first, kv_of_head.size())
                                      : std::span<const float>(),
        .scratch = scratch(),
        .out = out};
  }

  // Each rank attends to the splits in its third of the blocks.
  void attend_on_all_ranks() {
    const std::size_t blocks = sequences_.memory().size() / sequences_.cache().layout.block_bytes();
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      kernels::AttentionArgs all = args(0, GetParam().kv_of_head, {});
      all.sinks = {};
      const std::vector<kernels::BlockRange> owned(shape().kv_heads,
                                                   {rank * blocks / kRanks, (rank + 1) * blocks / kRanks});
      all.cache.owned = owned;
      kernels::attend_to_owned_splits(all, results_.data());
    }
  }

  std::vector<float> expected() {
    std::vector<float> out(tokens_ * heads() * sequences_.value_dim());
    kernels::paged_attention(
        args(0, GetParam().kv_of_head, {out.data(), tokens_, heads() * sequences_.value_dim()}));
    return out;
  }

  const std::vector<std::size_t> lengths_ = {2100, 700, 1537};
  const std::vector<std::size_t> queries_ = {1, 2, 1};
  PagedSequences sequences_;
  std::vector<kernels::AttentionSpan> spans_;
  std::size_t tokens_ = 0;
  std::size_t max_blocks_ = 0;
  std::optional<reference::RandomTensor> query_;
  std::vector<float> slopes_;
  std::vector<float> sinks_;
  std::vector<float> scratch_;
  std::vector<float> results_;
};

TEST_P(SplitAttention, HasTheBitsOfPagedAttention) {
  const std::vector<float> whole = expected();
  attend_on_all_ranks();
  // Each rank merges its part of the heads.
  std::vector<float> merged(whole.size());
  const TensorView<float> out(merged.data(), tokens_, heads() * sequences_.value_dim());
  const kernels::SharedHeads all{GetParam().kv_of_head, sequences_.cache().layout};
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const std::size_t first = rank * heads() / kRanks;
    const std::size_t count = (rank + 1) * heads() / kRanks - first;
    const auto own = std::span(GetParam().kv_of_head).subspan(first, count);
    const TensorView<float> columns =
        out.columns_from(first * sequences_.value_dim(), count * sequences_.value_dim());
    kernels::merge_splits(args(first, own, columns), all, first, results_.data());
  }
  EXPECT_EQ(std::memcmp(merged.data(), whole.data(), whole.size() * sizeof(float)), 0);
}

// The result changes if no rank owns a split, or a split lies in another's place.
TEST_P(SplitAttention, NeedsEachSplitInItsPlace) {
  const std::vector<float> whole = expected();
  attend_on_all_ranks();
  std::rotate(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(results_.size() / 3),
              results_.end());
  std::vector<float> merged(whole.size());
  kernels::merge_splits(
      args(0, GetParam().kv_of_head, {merged.data(), tokens_, heads() * sequences_.value_dim()}),
      {GetParam().kv_of_head, sequences_.cache().layout}, 0, results_.data());
  EXPECT_NE(std::memcmp(merged.data(), whole.data(), whole.size() * sizeof(float)), 0);
}

const std::vector<std::size_t> kOneKvHead(6, 0);
const std::vector<std::size_t> kTwoKvHeads = {0, 0, 0, 0, 1, 1, 1};

INSTANTIATE_TEST_SUITE_P(
    All, SplitAttention,
    testing::Values(SplitCase{"OneKvHead", {1, 64, kBlock, KvType::f32}, kOneKvHead},
                    SplitCase{"TwoKvHeads", {2, 32, kBlock, KvType::bf16}, kTwoKvHeads},
                    SplitCase{"Integers", {2, 64, kBlock, KvType::int8}, kTwoKvHeads},
                    SplitCase{"Slopes", {1, 32, kBlock, KvType::bf16}, kOneKvHead, true},
                    SplitCase{"SinksAndSoftcap", {2, 32, 16, KvType::f32}, kTwoKvHeads, false, true, 20.0F},
                    SplitCase{"Latents", {1, 96, kBlock, KvType::bf16, 64, true}, kOneKvHead},
                    SplitCase{"IntegerLatents", {1, 96, kBlock, KvType::int8, 64, true}, kOneKvHead}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace tp
