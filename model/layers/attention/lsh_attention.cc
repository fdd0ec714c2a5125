#include "model/layers/attention/lsh_attention.h"

#include "model/layers/attention/lsh_rotations.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tp {
namespace {

constexpr const char* kReason = "num_attention_heads x attention_head_size";

Range elements_of(Range heads, const LshAttentionSpec& spec) {
  return {heads.begin * spec.head_dim, heads.end * spec.head_dim};
}

std::vector<OwnedRows> query_value_rows(const LshAttentionSpec& spec, std::size_t hidden_size,
                                        const BlockNames& names, Range heads) {
  const MatrixShape shape{spec.num_attention_heads * spec.head_dim, hidden_size};
  return {{{names.query_key_proj, shape, kReason, "hidden_size"}, elements_of(heads, spec)},
          {{names.v_proj, shape, kReason, "hidden_size"}, elements_of(heads, spec)}};
}

}  // namespace

LshAttention::LshAttention(WeightLoader& loader, const LshAttentionSpec& spec, std::size_t hidden_size,
                           const BlockNames& names)
    : LshAttention(loader, spec, hidden_size, names,
                   shard_heads(spec.num_attention_heads, spec.num_attention_heads, loader.tp()).query_heads) {
}

LshAttention::LshAttention(WeightLoader& loader, const LshAttentionSpec& spec, std::size_t hidden_size,
                           const BlockNames& names, Range heads)
    : spec_(spec),
      heads_(heads),
      qkv_proj_(loader, query_value_rows(spec, hidden_size, names, heads), false),
      o_proj_(loader,
              {names.o_proj, {hidden_size, spec.num_attention_heads * spec.head_dim}, "hidden_size", kReason},
              elements_of(heads, spec), false, loader.leaf_of_heads(spec.head_dim)) {
  if (!spec.num_buckets.empty() && loader.reads()) rotations_ = lsh_rotations(spec, spec.num_buckets, heads);
}

std::size_t LshAttention::padded(std::size_t tokens) const {
  if (tokens <= spec_.unpadded) return tokens;
  return (tokens + spec_.padded_to - 1) / spec_.padded_to * spec_.padded_to;
}

kernels::LshLimits LshAttention::limits(std::size_t tokens) const {
  const std::vector<std::size_t>& fixed = spec_.num_buckets;
  const std::size_t chunks = padded(tokens) / spec_.chunk_length + 1;
  return {.tokens = tokens,
          .padded = padded(tokens),
          .rotated = fixed.empty() ? chunks : std::accumulate(fixed.begin(), fixed.end(), std::size_t{0}) / 2,
          .buckets = fixed.empty()
                         ? 2 * chunks
                         : std::accumulate(fixed.begin(), fixed.end(), std::size_t{1}, std::multiplies<>())};
}

// Rotations for each sequence, drawn for its number of buckets; empty if all sequences use rotations_.
std::vector<std::vector<float>> LshAttention::rotations_of(
    std::span<const std::vector<std::size_t>> factors) const {
  std::vector<std::vector<float>> rotations;
  if (!rotations_.empty()) return rotations;
  for (const std::vector<std::size_t>& some : factors)
    rotations.push_back(lsh_rotations(spec_, some, heads_));
  return rotations;
}

PartialSum LshAttention::operator()(TensorView<const float> x, const StepContext& step) const {
  const std::size_t size = heads_.size() * spec_.head_dim;
  const TensorView<float> projected = qkv_proj_(x, step);  // [tokens, 2 * size]
  std::vector<std::vector<std::size_t>> factors;
  std::vector<kernels::LshSequence> sequences;
  std::size_t longest = 0;
  for (const kernels::AttentionSpan& span : step.spans()) {
    sequences.push_back(
        {.first_token = span.first_token, .tokens = span.tokens, .padded = padded(span.tokens)});
    factors.push_back(bucket_factors(spec_, sequences.back().padded));
    longest = std::max(longest, span.tokens);
  }
  kernels::LshAttention args{.query_key = projected.columns_from(0, size),
                             .value = projected.columns_from(size, size),
                             .sequences = sequences,
                             .head_dim = spec_.head_dim,
                             .chunk_length = spec_.chunk_length,
                             .chunks_before = spec_.chunks_before,
                             .chunks_after = spec_.chunks_after,
                             .num_hashes = spec_.num_hashes,
                             .limits = limits(longest),
                             .out = step.workspace.take(x.rows(), size)};
  args.scratch = step.workspace.take_per_thread(kernels::lsh_scratch(args));
  if (!args.out.empty()) {
    const std::vector<std::vector<float>> rotations = rotations_of(factors);
    for (std::size_t i = 0; i < sequences.size(); ++i)
      sequences[i].buckets = {factors[i], rotations.empty() ? rotations_ : rotations[i]};
    kernels::lsh_attention(args);
  }
  return o_proj_(args.out, step);
}

}  // namespace tp
