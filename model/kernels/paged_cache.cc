#include "model/kernels/paged_cache.h"

#include "model/kernels/half.h"
#include "model/threads.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tp::kernels {
namespace {

constexpr std::size_t kCacheLine = 64;

// Steps of a key panel: bf16 keys go by pairs of elements.
std::size_t key_steps(const KvLayout& layout) {
  return layout.type == KvType::bf16 ? (layout.key_dim + 1) / 2 : layout.key_dim;
}

// A token's key and value of one head go to `slot` of the head's part of a block.
struct Slot {
  const KvLayout& layout;
  std::byte* head;
  std::size_t slot;

  // Element 0 of the slot's column in its panel of keys.
  template <class T>
  T* key_column(std::size_t elements_of_step) const {
    return reinterpret_cast<T*>(head + slot / KvLayout::kPanel * layout.key_panel_bytes()) +
           slot % KvLayout::kPanel * elements_of_step;
  }
  template <class T>
  T* values() const {
    return reinterpret_cast<T*>(head + layout.values_offset());
  }
};

void store_f32(const Slot& to, const float* key, const float* value) {
  auto* column = to.key_column<float>(1);
  for (std::size_t d = 0; d < to.layout.key_dim; ++d) column[d * KvLayout::kPanel] = key[d];
  std::memcpy(to.values<float>() + to.slot * to.layout.value_columns(), value,
              to.layout.value_dim * sizeof(float));
}

// `last`: nothing is stored behind the slot. The pair that it begins must hold numbers all the same.
void store_bf16(const Slot& to, const float* key, const float* value, bool last) {
  const KvLayout& layout = to.layout;
  auto* column = to.key_column<std::uint16_t>(2);
  for (std::size_t d = 0; d < layout.key_dim; ++d) {
    column[d / 2 * 2 * KvLayout::kPanel + d % 2] = float_to_bf16(key[d]);
  }
  if (layout.key_dim % 2 != 0) column[layout.key_dim / 2 * 2 * KvLayout::kPanel + 1] = 0;
  auto* row = to.values<std::uint16_t>() + to.slot / 2 * 2 * layout.value_columns() + to.slot % 2;
  for (std::size_t d = 0; d < layout.value_dim; ++d) row[2 * d] = float_to_bf16(value[d]);
  if (last && to.slot % 2 == 0) {
    for (std::size_t d = 0; d < layout.value_dim; ++d) row[2 * d + 1] = 0;
  }
}

// The scale that brings the greatest magnitude to 127.
float int8_scale(const float* x, std::size_t size) {
  float greatest = 0.0F;
  for (std::size_t i = 0; i < size; ++i) greatest = std::max(greatest, std::fabs(x[i]));
  return greatest / 127.0F;
}

std::int8_t quantized(float x, float inverse) { return static_cast<std::int8_t>(std::lrintf(x * inverse)); }

void store_int8(const Slot& to, const float* key, const float* value) {
  const KvLayout& layout = to.layout;
  const auto store_scale = [&](std::size_t offset, float scale) {
    reinterpret_cast<float*>(to.head + offset)[to.slot] = scale;
    return scale > 0.0F ? 1.0F / scale : 0.0F;
  };
  const float key_inverse = store_scale(layout.key_scales_offset(), int8_scale(key, layout.key_dim));
  auto* column = to.key_column<std::int8_t>(1);
  for (std::size_t d = 0; d < layout.key_dim; ++d)
    column[d * KvLayout::kPanel] = quantized(key[d], key_inverse);
  const float value_inverse = store_scale(layout.value_scales_offset(), int8_scale(value, layout.value_dim));
  auto* row = to.values<std::int8_t>() + to.slot * layout.value_columns();
  for (std::size_t d = 0; d < layout.value_dim; ++d) row[d] = quantized(value[d], value_inverse);
}

}  // namespace

std::size_t KvLayout::key_panel_bytes() const {
  const std::size_t step = type == KvType::int8 ? kPanel : kPanel * sizeof(float);
  return key_steps(*this) * step;
}

std::size_t KvLayout::key_scales_offset() const {
  switch (type) {
    case KvType::f32:
      return values_offset() + block_size * value_columns() * sizeof(float);
    case KvType::bf16:
      return values_offset() + (block_size + 1) / 2 * value_columns() * sizeof(float);
    default:
      return values_offset() + block_size * value_columns();
  }
}

std::size_t KvLayout::head_bytes() const {
  const std::size_t end =
      key_scales_offset() + (type == KvType::int8 ? 2 * padded_block() * sizeof(float) : 0);
  return (end + kCacheLine - 1) / kCacheLine * kCacheLine;
}

void store_keys_values(TensorView<const float> key, TensorView<const float> value,
                       std::span<const AttentionSpan> spans, const PagedCache& cache) {
  const KvLayout& layout = cache.layout;
  for (const AttentionSpan& span : spans) {
#pragma omp parallel for schedule(static) if (span.tokens > 1 && span.tokens * key.columns() >= kWorthThreads)
    for (std::size_t token = 0; token < span.tokens; ++token) {
      const std::size_t position = span.start_position + token;
      const auto block = static_cast<std::size_t>(span.block_table[position / layout.block_size]);
      for (std::size_t head = 0; head < layout.kv_heads; ++head) {
        const float* k = key.row(span.first_token + token) + head * layout.key_dim;
        const float* v = value.row(span.first_token + token) + head * layout.value_dim;
        const Slot slot{layout, cache.head(block, head), position % layout.block_size};
        switch (layout.type) {
          case KvType::f32:
            store_f32(slot, k, v);
            break;
          case KvType::bf16:
            store_bf16(slot, k, v, token + 1 == span.tokens || slot.slot + 1 == layout.block_size);
            break;
          case KvType::int8:
            store_int8(slot, k, v);
            break;
        }
      }
    }
  }
}

}  // namespace tp::kernels
