#include "model/layers/attention/host_attention.h"

#include "model/kernels/attention_scratch.h"
#include "model/kernels/split_attention.h"

#include <algorithm>
#include <vector>

namespace tp {
namespace {

using kernels::AttentionArgs;
using kernels::AttentionSpan;

// With fewer splits per owner, owners would have too unequal shares.
constexpr std::size_t kSplitsPerOwner = 4;

// The arguments of attention with the queries of all ranks, which are in the shared memory.
AttentionArgs args_of_host(const AttentionArgs& args, const SharedLayer& layer) {
  AttentionArgs all = args;
  all.cache = layer.whole;
  all.kv_of_head = layer.queries->kv_of_head;
  all.sinks = {};
  all.scratch = layer.scratch;
  all.out = {};
  return all;
}

// The spans of a step whose splits the ranks divide, and the places of their queries and results.
class SharedSpans {
 public:
  SharedSpans(const AttentionArgs& args, const SharedLayer& layer)
      : args_(args), layer_(layer), all_(args_of_host(args, layer)), memory_(layer.exchange.data()) {
    choose();
    const std::size_t heads = all_.kv_of_head.size();
    queries_ = {memory_.take<float>(tokens_ * columns()), tokens_, columns()};
    all_.query = queries_;
    slopes_ = memory_.take<float>(heads);
    if (!args.alibi_slopes.empty()) all_.alibi_slopes = {slopes_, heads};
    all_.spans = shared_;
    results_ = memory_.take<float>(0);
  }

  bool empty() const { return shared_.empty(); }
  std::span<const AttentionSpan> others() const { return others_; }

  // Shows this rank's queries to the other ranks.
  void offer_queries() const {
    const std::size_t first = layer_.queries->first_head;
    for (std::size_t i = 0; i < shared_.size(); ++i) {
      for (std::size_t token = 0; token < shared_[i].tokens; ++token)
        std::copy_n(args_.query.row(own_[i].first_token + token), args_.query.columns(),
                    queries_.row(shared_[i].first_token + token) + first * args_.cache.layout.key_dim);
    }
    std::ranges::copy(args_.alibi_slopes, slopes_ + first);
  }

  void attend() const { kernels::attend_to_owned_splits(all_, results_); }

  void merge() const {
    AttentionArgs own = args_;
    own.spans = own_;
    kernels::merge_splits(own, {all_.kv_of_head, all_.cache.layout}, layer_.queries->first_head, results_);
  }

 private:
  std::size_t columns() const { return all_.kv_of_head.size() * all_.cache.layout.key_dim; }

  bool is_worth_sharing(const AttentionSpan& span) const {
    return kernels::can_share_splits(span, all_) &&
           kernels::number_of_splits(span, all_.cache.layout) >= kSplitsPerOwner * layer_.owners;
  }

  // Takes as many spans as the shared memory has room for.
  void choose() {
    constexpr std::size_t kLines = 64;  // floats that arrays lose to the beginnings of cache lines
    const std::size_t slopes = all_.kv_of_head.size();
    std::size_t used = kLines + slopes;
    for (const AttentionSpan& span : args_.spans) {
      const bool is_shared = is_worth_sharing(span);
      const std::size_t results =
          is_shared ? kernels::split_results(span, all_.kv_of_head, all_.cache.layout) : 0;
      const std::size_t more = span.tokens * columns() + results;
      if (!is_shared || used + more > layer_.exchange.size()) {
        others_.push_back(span);
        continue;
      }
      used += more;
      own_.push_back(span);
      shared_.push_back(span);
      shared_.back().first_token = tokens_;
      tokens_ += span.tokens;
    }
  }

  const AttentionArgs& args_;
  const SharedLayer& layer_;
  AttentionArgs all_;
  kernels::Carver memory_;
  std::vector<AttentionSpan> others_;  // this rank computes them alone, for its own heads
  std::vector<AttentionSpan> own_;     // the shared spans, with rows of args_.query
  std::vector<AttentionSpan> shared_;  // with rows of all_.query
  std::size_t tokens_ = 0;             // tokens of shared spans
  TensorView<float> queries_;          // [tokens, heads * key_dim]
  float* slopes_ = nullptr;            // [heads]
  float* results_ = nullptr;
};

}  // namespace

void attend(const AttentionArgs& args, const StepContext& step) {
  if (step.shared_cache == nullptr) return kernels::paged_attention(args);
  use_huge_pages(*step.shared_cache, args.spans);
  if (step.shared_cache->queries == nullptr) return kernels::paged_attention(args);
  SharedSpans shared(args, *step.shared_cache);
  shared.offer_queries();
  step.shared_cache->region->synchronize();
  AttentionArgs others = args;
  others.spans = shared.others();
  if (!others.spans.empty()) kernels::paged_attention(others);
  if (shared.empty()) return;
  shared.attend();
  step.shared_cache->region->synchronize();
  shared.merge();
  // With half-batches, this rank now computes the other half, and its next queries may overwrite results that
  // other ranks have yet to merge. Without them, the next all-reduce waits for the other ranks.
  if (step.comm != nullptr && step.comm->overlaps()) step.shared_cache->region->synchronize();
}

void wait_for_host(const StepContext& step) {
  if (step.shared_cache == nullptr) return;
  use_huge_pages(*step.shared_cache, step.spans());
  if (step.shared_cache->queries != nullptr) step.shared_cache->region->synchronize();
}

}  // namespace tp
