#include "runtime/store/files/arithmetic_fingerprint.h"

#include "model/kernels/attention.h"
#include "model/kernels/delta_rule.h"
#include "model/kernels/elementwise.h"
#include "model/kernels/favor.h"
#include "model/kernels/matmul.h"
#include "model/kernels/recurrent_inputs.h"
#include "model/kernels/rope.h"
#include "model/kernels/selective_scan.h"
#include "model/kernels/wkv.h"
#include "model/memory/buffer.h"
#include "model/weights/packing_fingerprint.h"
#include "parallel/machine/hash.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include <omp.h>

namespace tp {
namespace {

using namespace kernels;

constexpr std::size_t kTokens = 40;
constexpr std::size_t kHeadDim = 64;
constexpr const char* kUse = "memory to test arithmetic";

// [rows, columns] with numbers in [-0.5, 0.5).
class Numbers {
 public:
  Numbers(std::size_t rows, std::size_t columns, std::uint64_t seed = 0)
      : rows_(rows), columns_(columns), numbers_(rows * columns, kUse) {
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      numbers_[i] = static_cast<float>(mixed(seed + i + 1) >> 40) / static_cast<float>(1 << 24) - 0.5F;
  }
  TensorView<float> view() { return {numbers_.data(), rows_, columns_}; }
  std::span<float> all() { return {numbers_.data(), numbers_.size()}; }

 private:
  std::size_t rows_;
  std::size_t columns_;
  Buffer<float> numbers_;
};

template <class T>
std::uint64_t hash_of_numbers(std::span<const T> numbers, std::uint64_t hash) {
  return hash_of({reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()}, hash);
}

template <class Sum>
std::uint64_t hash_of_product(const PackedView& weight, std::size_t tokens, std::uint64_t hash) {
  Numbers x(tokens, weight.layout.in_features);
  Numbers scratch(1, matmul_scratch(weight.layout, tokens));
  std::vector<Sum> y(tokens * weight.layout.out_features);
  matmul(x.view(), weight, scratch.view(), TensorView<Sum>(y.data(), tokens, weight.layout.out_features));
  return hash_of_numbers(std::span<const Sum>(y), hash);
}

std::uint64_t hash_of_products(std::uint64_t hash) {
  for_example_weights([&](const PackedView& example) {
    if (is_scaled(example.layout.type)) return;  // the examples are no layouts of products
    Buffer<std::byte> aligned(example.layout.bytes(), kUse);
    std::memcpy(aligned.data(), example.data, aligned.size());
    const PackedView weight{example.layout, aligned.data()};
    for (const std::size_t tokens : {std::size_t{1}, kTokens})
      hash = weight.layout.leaf != 0 ? hash_of_product<double>(weight, tokens, hash)
                                     : hash_of_product<float>(weight, tokens, hash);
  });
  return hash;
}

// Fills a cache, and attends to it with all tokens and with the last one.
std::uint64_t hash_of_attention(const KvLayout& layout, std::uint64_t hash) {
  const std::size_t blocks = (kTokens + layout.block_size - 1) / layout.block_size;
  Buffer<std::byte> memory(blocks * layout.block_bytes(), kUse);
  std::fill_n(memory.data(), memory.size(), std::byte{});
  const PagedCache cache{layout, memory.data(), layout.block_bytes()};
  std::vector<std::int32_t> table(blocks);
  std::iota(table.begin(), table.end(), 0);
  Numbers key(kTokens, layout.stored_key_dim(), 1);
  Numbers value(kTokens, layout.value_dim, 2);
  Numbers query(kTokens, 2 * layout.key_dim, 3);
  Numbers out(kTokens, 2 * layout.value_dim);
  const std::vector<std::size_t> kv_of_head = {0, 0};
  const AttentionSpan all{.tokens = kTokens, .block_table = table};
  store_keys_values(key.view(), value.view(), {&all, 1}, cache);
  Numbers scratch(static_cast<std::size_t>(omp_get_max_threads()),
                  attention_scratch(kv_of_head, layout, blocks));
  for (const std::size_t tokens : {kTokens, std::size_t{1}}) {
    const AttentionSpan span{.tokens = tokens, .start_position = kTokens - tokens, .block_table = table};
    const TensorView<float> rows = out.view().rows_from(0, tokens);
    paged_attention({.query = query.view().rows_from(0, tokens),
                     .cache = cache,
                     .spans = {&span, 1},
                     .kv_of_head = kv_of_head,
                     .pattern = {},
                     .scratch = scratch.view(),
                     .out = rows});
    hash = hash_of_numbers(std::span<const float>(rows.data(), rows.size()), hash);
  }
  return hash_of_numbers(std::span<const std::byte>(memory.data(), memory.size()), hash);
}

// `decays_rows`: Kimi delta attention. The tokens reach beyond an anchor.
std::uint64_t hash_of_recurrence(bool decays_rows, std::uint64_t hash) {
  constexpr std::size_t kScanTokens = kAnchorTokens + 36;
  const DeltaShape shape{.key_heads = 1,
                         .value_heads = 1,
                         .key_dim = kHeadDim,
                         .value_dim = kHeadDim,
                         .decays_rows = decays_rows};
  Numbers x(kScanTokens, 3 * kHeadDim, 4);
  Numbers weight(4, 3 * kHeadDim, 5);
  Numbers inputs(3, 3 * kHeadDim);
  Numbers mixed_inputs(kScanTokens, 3 * kHeadDim);
  const RecurrentRun inputs_run{.tokens = kScanTokens, .state = inputs.view().data()};
  causal_convolution(x.view(), weight.view(), {}, Activation::silu, {&inputs_run, 1}, mixed_inputs.view());
  Numbers state(1, shape.floats());
  Numbers scratch(static_cast<std::size_t>(omp_get_max_threads()), delta_scratch(shape));
  Numbers dots(kScanTokens, delta_dots(shape, true));
  Numbers gates(kScanTokens, shape.decays() + 1, 6);
  Numbers out(kScanTokens, kHeadDim);
  const std::vector<float> rate(shape.decays(), 0.7F);
  const TensorView<float> decay = gates.view().columns_from(0, shape.decays());
  const TensorView<float> strength = gates.view().columns_from(shape.decays(), 1);
  delta_gates({}, rate, rate, decay, strength);
  const std::array<std::size_t, 1> key_of_head = {0};
  const RecurrentRun run{.tokens = kScanTokens, .state = state.view().data()};
  delta_rule({.query = mixed_inputs.view().columns_from(0, kHeadDim),
              .key = mixed_inputs.view().columns_from(kHeadDim, kHeadDim),
              .value = mixed_inputs.view().columns_from(2 * kHeadDim, kHeadDim),
              .decay = decay,
              .strength = strength,
              .key_of_head = key_of_head,
              .shape = shape,
              .scratch = scratch.view(),
              .dots = dots.view(),
              .out = out.view()},
             {&run, 1});
  for (Numbers* const result : {&inputs, &state, &out})
    hash = hash_of_numbers(std::span<const float>(result->all()), hash);
  return hash;
}

// The last block of channels is not whole.
std::uint64_t hash_of_selective_scan(std::uint64_t hash) {
  constexpr std::size_t kChannels = kHeadDim - 4;
  constexpr std::size_t kStateSize = 16;
  Numbers x(kTokens, kChannels, 10);
  Numbers step(kTokens, kChannels, 11);
  Numbers inputs(kTokens, 2 * kStateSize, 12);
  Numbers state(1, selective_state_floats(kChannels, kStateSize));
  const std::vector<float> rate(state.all().size(), 0.7F);
  const std::vector<float> direct(padded(kChannels), 0.5F);
  const RecurrentRun run{.tokens = kTokens, .state = state.view().data()};
  selective_scan({.x = x.view(),
                  .step = step.view(),
                  .b = inputs.view().columns_from(0, kStateSize),
                  .c = inputs.view().columns_from(kStateSize, kStateSize),
                  .rate = rate,
                  .direct = direct,
                  .out = x.view()},
                 {&run, 1});
  for (Numbers* const result : {&state, &x})
    hash = hash_of_numbers(std::span<const float>(result->all()), hash);
  return hash;
}

std::uint64_t hash_of_wkv(std::uint64_t hash) {
  Numbers inputs(kTokens, 6 * kHeadDim, 13);
  Numbers state(1, wkv_head_floats(kHeadDim));
  Numbers out(kTokens, kHeadDim);
  Numbers gains(1, kHeadDim, 14);
  const auto input = [&](std::size_t index) {
    return inputs.view().columns_from(index * kHeadDim, kHeadDim);
  };
  wkv_inputs({.key = input(0),
              .decay = input(1),
              .strength = input(2),
              .removal = input(3),
              .removal_gain = gains.all(),
              .key_gain = gains.all(),
              .head_dim = kHeadDim});
  const RecurrentRun run{.tokens = kTokens, .state = state.view().data()};
  wkv_scan({.receptance = input(4),
            .decay = input(1),
            .key = input(0),
            .value = input(5),
            .removal = input(3),
            .correction = input(2),
            .head_dim = kHeadDim,
            .out = out.view()},
           {&run, 1});
  mix_values(input(5), input(4), out.view());
  add_wkv_bonus({.receptance = input(4),
                 .key = input(0),
                 .value = input(5),
                 .weight = gains.all(),
                 .head_dim = kHeadDim},
                out.view());
  mix_shifted(input(5), out.view(), gains.all(), out.view());
  for (Numbers* const result : {&state, &out})
    hash = hash_of_numbers(std::span<const float>(result->all()), hash);
  return hash;
}

std::uint64_t hash_of_favor(std::uint64_t hash) {
  constexpr std::size_t kFeatures = 32;
  const std::vector<float> features = orthogonal_features(1, kFeatures, kHeadDim);
  const std::array<std::size_t, 1> kv_of_head = {0};
  Numbers query(kTokens, kHeadDim, 7);
  Numbers out(kTokens, kHeadDim);
  Numbers state(1, favor_state_floats(1, kFeatures, kHeadDim));
  Numbers scratch(static_cast<std::size_t>(omp_get_max_threads()), favor_scratch(1, kFeatures, kHeadDim));
  const RecurrentRun run{.tokens = kTokens, .state = state.view().data()};
  favor_attention({.query = query.view(),
                   .key = query.view(),
                   .value = query.view(),
                   .kv_of_head = kv_of_head,
                   .features = features,
                   .num_features = kFeatures,
                   .head_dim = kHeadDim,
                   .scratch = scratch.view(),
                   .out = out.view()},
                  {&run, 1});
  for (Numbers* const result : {&state, &out})
    hash = hash_of_numbers(std::span<const float>(result->all()), hash);
  return hash;
}

// Norms, activations, and rotations by angles from the C library.
std::uint64_t hash_of_elements(std::uint64_t hash) {
  Numbers x(kTokens, kHeadDim, 8);
  Numbers gain(1, kHeadDim, 9);
  Numbers cosine(kTokens, kHeadDim / 2);
  Numbers sine(kTokens, kHeadDim / 2);
  for (std::size_t token = 0; token < kTokens; ++token) {
    for (std::size_t i = 0; i < kHeadDim / 2; ++i) {
      const double angle = static_cast<double>(token) * std::pow(10000.0, -static_cast<double>(i) / 32);
      cosine.view()(token, i) = static_cast<float>(std::cos(angle));
      sine.view()(token, i) = static_cast<float>(std::sin(angle));
    }
  }
  rms_norm(x.view(), gain.all(), 1e-6F, x.view());
  rotate(x.view(), kHeadDim, cosine.view(), sine.view());
  for (const Activation activation : {Activation::silu, Activation::gelu})
    multiply_activated(activation, x.view(), x.view());
  return hash_of_numbers(std::span<const float>(x.all()), hash);
}

}  // namespace

std::uint64_t arithmetic_fingerprint(KvType type, std::size_t block_size) {
  std::uint64_t hash = hash_of_products(hash_of(""));
  hash = hash_of_attention({type, 1, block_size, kHeadDim, kHeadDim}, hash);
  hash = hash_of_attention({type, 1, block_size, kHeadDim + 32, kHeadDim, true}, hash);
  hash = hash_of_recurrence(true, hash_of_recurrence(false, hash));
  return hash_of_elements(hash_of_favor(hash_of_wkv(hash_of_selective_scan(hash))));
}

}  // namespace tp
