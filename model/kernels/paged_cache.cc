#include "model/kernels/paged_cache.h"

#include "model/kernels/half.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace tp::kernels {
namespace {

constexpr std::size_t kCacheLine = 64;

std::size_t whole_lines(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

// `size` elements of a key, or positions, padded to whole steps.
std::size_t whole_steps(const KvLayout& layout, std::size_t size) {
  return (size + layout.step() - 1) / layout.step() * layout.step();
}

// Types of elements. kStep of them, of a key or of neighbouring positions' values, are stored together.
struct F32Cells {
  using Element = float;
  static constexpr std::size_t kStep = 1;
  Element operator()(float x) const { return x; }
};

struct Bf16Cells {
  using Element = std::uint16_t;
  static constexpr std::size_t kStep = 2;
  Element operator()(float x) const { return float_to_bf16(x); }
};

template <std::size_t kElements>
struct Int8Cells {
  using Element = std::int8_t;
  static constexpr std::size_t kStep = kElements;
  float inverse;  // inverse of the scale
  Element operator()(float x) const { return static_cast<std::int8_t>(std::lrintf(x * inverse)); }
};

// The place of a token's key and value of one head: `slot` of the head's part of a block.
struct Slot {
  const KvLayout& layout;
  std::byte* head;
  std::size_t slot;

  // Element 0 of the slot's column in its panel of keys.
  template <class Cells>
  auto* key_column() const {
    return reinterpret_cast<typename Cells::Element*>(head +
                                                      slot / KvLayout::kPanel * layout.key_panel_bytes()) +
           slot % KvLayout::kPanel * Cells::kStep;
  }
  // Element `column` of the slot's row. The next element is kStep further.
  template <class Cells>
  auto* row(std::size_t column) const {
    const std::size_t step = slot / Cells::kStep * layout.row_columns() + column;
    return reinterpret_cast<typename Cells::Element*>(head + layout.values_offset()) + step * Cells::kStep +
           slot % Cells::kStep;
  }
};

template <class Cells>
void store_column(const Slot& to, const float* key, const Cells& cells) {
  const std::size_t dim = to.layout.stored_key_dim();
  auto* column = to.key_column<Cells>();
  const auto at = [&](std::size_t d) -> auto& {
    return column[d / Cells::kStep * Cells::kStep * KvLayout::kPanel + d % Cells::kStep];
  };
  for (std::size_t d = 0; d < dim; ++d) at(d) = cells(key[d]);
  for (std::size_t d = dim; d % Cells::kStep != 0; ++d) at(d) = 0;
}

// Pads a row's last vector with zeros if it is used for scores.
template <class Cells>
void store_row(const Slot& to, std::size_t column, const float* x, std::size_t size, const Cells& cells) {
  auto* row = to.row<Cells>(column);
  for (std::size_t d = 0; d < size; ++d) row[d * Cells::kStep] = cells(x[d]);
  if (!to.layout.latent) return;
  for (std::size_t d = size; d % KvLayout::kPanel != 0; ++d) row[d * Cells::kStep] = 0;
}

template <class Cells>
void store(const Slot& to, const float* key, const Cells& key_cells, const float* value,
           const Cells& value_cells) {
  const KvLayout& layout = to.layout;
  store_row(to, 0, value, layout.value_dim, value_cells);
  if (layout.latent) {
    store_row(to, layout.value_columns(), key, layout.stored_key_dim(), key_cells);
  } else {
    store_column(to, key, key_cells);
  }
}

// Products use rows of values in pairs or tiles. Rows that are not stored yet have weights of zero, but must
// contain numbers.
void clear_rows_behind(const Slot& last) {
  const KvLayout& layout = last.layout;
  const std::size_t columns = layout.latent ? layout.row_columns() : layout.value_dim;
  for (std::size_t slot = last.slot + 1; slot < (layout.block_size + 1) / 2 * 2; ++slot) {
    auto* row = Slot{layout, last.head, slot}.row<Bf16Cells>(0);
    for (std::size_t d = 0; d < columns; ++d) row[2 * d] = 0;
  }
}

// Whether this is the last slot that a span stores in a block whose first slot it also stored.
bool is_last_of_new_block(const AttentionSpan& span, std::size_t token, const Slot& slot) {
  const bool last = token + 1 == span.tokens || slot.slot + 1 == slot.layout.block_size;
  return last && token >= slot.slot;
}

// The scale at which the largest magnitude becomes 127.
float int8_scale(const float* x, std::size_t size) {
  float greatest = 0.0F;
  for (std::size_t i = 0; i < size; ++i) greatest = std::max(greatest, std::fabs(x[i]));
  return greatest / 127.0F;
}

template <class Cells>
void store_int8(const Slot& to, const float* key, const float* value) {
  const KvLayout& layout = to.layout;
  const auto store_scale = [&](std::size_t offset, float scale) {
    reinterpret_cast<float*>(to.head + offset)[to.slot] = scale;
    return Cells{scale > 0.0F ? 1.0F / scale : 0.0F};
  };
  const Cells key_cells = store_scale(layout.key_scales_offset(), int8_scale(key, layout.stored_key_dim()));
  const Cells value_cells = store_scale(layout.value_scales_offset(), int8_scale(value, layout.value_dim));
  store(to, key, key_cells, value, value_cells);
}

void store_in(const Slot& slot, const float* key, const float* value) {
  switch (slot.layout.type) {
    case KvType::f32:
      return store(slot, key, F32Cells{}, value, F32Cells{});
    case KvType::bf16:
      return store(slot, key, Bf16Cells{}, value, Bf16Cells{});
    case KvType::int8:
      return slot.layout.latent ? store_int8<Int8Cells<1>>(slot, key, value)
                                : store_int8<Int8Cells<4>>(slot, key, value);
  }
}

// Calls write(i, slot) for each of `count` slots of a run. A block that the run does not fill up to its end
// is cleared before the run writes to it, except for slots before the run.
template <class Write>
void for_slots(const PagedCache& cache, const SlotRun& run, std::size_t count, const Write& write) {
  const std::size_t size = cache.layout.block_size;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = run.first_slot + i;
    std::byte* const block = cache.head(run.first_block + place / size, 0);
    const bool is_filled = count - i >= size && size % KvLayout::kPanel == 0;
    if (place % size == 0 && !is_filled) std::memset(block, 0, cache.layout.head_bytes());
    write(i, Slot{cache.layout, block, place % size});
  }
}

// A position's latent in one block, copied to a slot of another block.
void copy_row(const Slot& from, const Slot& to) {
  const std::size_t columns = from.layout.row_columns();
  switch (from.layout.type) {
    case KvType::f32:
      std::copy_n(from.row<F32Cells>(0), columns, to.row<F32Cells>(0));
      return;
    case KvType::bf16:
      for (std::size_t i = 0; i < 2 * columns; i += 2) to.row<Bf16Cells>(0)[i] = from.row<Bf16Cells>(0)[i];
      return;
    case KvType::int8:
      std::copy_n(from.row<Int8Cells<1>>(0), columns, to.row<Int8Cells<1>>(0));
      // The layouts may have different numbers of slots, and so different places for scales.
      for (const auto scales : {&KvLayout::key_scales_offset, &KvLayout::value_scales_offset})
        reinterpret_cast<float*>(to.head + (to.layout.*scales)())[to.slot] =
            reinterpret_cast<const float*>(from.head + (from.layout.*scales)())[from.slot];
      return;
  }
}

}  // namespace

std::size_t KvLayout::element_bytes() const {
  switch (type) {
    case KvType::f32:
      return 4;
    case KvType::bf16:
      return 2;
    default:
      return 1;
  }
}

std::size_t KvLayout::step() const { return latent && type == KvType::int8 ? 1 : 4 / element_bytes(); }

std::size_t KvLayout::key_panel_bytes() const {
  return whole_steps(*this, key_dim) * kPanel * element_bytes();
}

std::size_t KvLayout::key_scales_offset() const {
  return values_offset() + whole_steps(*this, slots()) * row_columns() * element_bytes();
}

std::size_t KvLayout::index_offset() const {
  return whole_lines(key_scales_offset() + (type == KvType::int8 ? 2 * padded_block() * sizeof(float) : 0));
}

std::size_t KvLayout::head_bytes() const {
  return index_offset() + whole_lines(index_panels() * index_panel_bytes());
}

void store_keys_values(TensorView<const float> key, TensorView<const float> value,
                       std::span<const AttentionSpan> spans, const PagedCache& cache) {
  if (value.empty()) return;
  const KvLayout& layout = cache.layout;
  assert(!layout.pools_latents);
  for (const AttentionSpan& span : spans) {
#pragma omp parallel for schedule(static) if (span.tokens > 1 && \
                                              span.tokens * value.columns() >= kMinParallelWork)
    for (std::size_t token = 0; token < span.tokens; ++token) {
      const std::size_t position = span.start_position + token;
      const auto block = static_cast<std::size_t>(span.block_table[position / layout.block_size]);
      for (std::size_t head = 0; head < layout.kv_heads; ++head) {
        if (!cache.owns(block, head)) continue;
        const float* k = key.row(span.first_token + token) + head * layout.stored_key_dim();
        const float* v = value.row(span.first_token + token) + head * layout.value_dim;
        const Slot slot{layout, cache.head(block, head), position % layout.block_size};
        store_in(slot, k, v);
        if (layout.type == KvType::bf16 && is_last_of_new_block(span, token, slot)) clear_rows_behind(slot);
      }
    }
  }
}

void store_pool_latent(const float* latent, std::size_t number, std::span<const std::int32_t> block_table,
                       const PagedCache& cache) {
  const KvLayout& layout = cache.layout;
  assert(layout.pools_latents && layout.stored_key_dim() == 0);
  const std::size_t index = layout.block_of_index_key(number);
  const auto block = static_cast<std::size_t>(block_table[index]);
  if (!cache.owns(block, 0)) return;
  store_in({layout, cache.head(block, 0), number - layout.index_keys_before(index)}, nullptr, latent);
}

void copy_latents(const PagedCache& from, std::span<const std::int32_t> block_table,
                  std::span<const std::int32_t> positions, const PagedCache& to, const SlotRun& run) {
  const KvLayout& layout = from.layout;
  for_slots(to, run, positions.size(), [&](std::size_t i, const Slot& slot) {
    const auto position = static_cast<std::size_t>(positions[i]);
    const std::size_t index =
        layout.pools_latents ? layout.block_of_index_key(position) : position / layout.block_size;
    const std::size_t before =
        layout.pools_latents ? layout.index_keys_before(index) : index * layout.block_size;
    const auto block = static_cast<std::size_t>(block_table[index]);
    copy_row({layout, from.head(block, 0), position - before}, slot);
  });
}

void write_latents(std::span<const float* const> rows, const PagedCache& to, const SlotRun& run) {
  assert(to.layout.latent && to.layout.stored_key_dim() == 0);
  for_slots(to, run, rows.size(), [&](std::size_t i, const Slot& slot) { store_in(slot, nullptr, rows[i]); });
}

}  // namespace tp::kernels
