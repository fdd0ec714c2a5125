#include "model/weights/weight_loader.h"

#include "model/weights/finite_weights.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sstream>

#include <fmt/ranges.h>

namespace tp {

WeightType WeightLoader::type_of(const Slice& slice, std::size_t leaf) const {
  if (type_) return *type_;
  // Depends on the leaf instead of the slice, so that all ranks decide alike. If activations are rounded in
  // groups, a leaf must be whole groups of activations.
  const Range in_features = leaf != 0 ? Range{0, leaf} : slice.part.columns;
  const std::optional<WeightType> grouped =
      slice.transposed ? std::nullopt : source_.group_type(slice.name, in_features);
  if (grouped && (leaf % kernels::PackedLayout::kGroup == 0 || kernels::is_scaled(*grouped))) return *grouped;
  return lossless_type(source_.dtype(slice.name));
}

bool WeightLoader::keeps_values(const Slice& slice) const {
  if (!type_ || *type_ == WeightType::f32) return true;
  const std::optional<WeightType> grouped = source_.group_type(slice.name, slice.part.columns);
  return *type_ == (grouped ? *grouped : lossless_type(source_.dtype(slice.name)));
}

bool WeightLoader::are_held_alike(const Slice& one, const Slice& other) const {
  const WeightType type = type_of(one);
  if (type_of(other) != type) return false;
  return !kernels::is_scaled(type) ||
         source_.scales_of(one.name).has_groups_of(source_.scales_of(other.name));
}

// Index of each row's scale in its panel. It increases at each new block of rows.
std::vector<std::uint8_t> WeightLoader::scale_rows_of(std::span<const Slice> slices) const {
  std::vector<std::uint8_t> scale_rows;
  const Slice* last_slice = nullptr;
  std::size_t last_block = 0;
  for (const Slice& slice : slices) {
    const std::size_t row_block = source_.scales_of(slice.name).row_block;
    for (std::size_t row = slice.part.rows.begin; row < slice.part.rows.end; ++row) {
      const std::size_t block = slice.row(row) / row_block;
      const bool is_next = last_slice == nullptr || last_block != block ||
                           (last_slice != &slice && last_slice->name != slice.name);
      const bool begins_panel = scale_rows.size() % kernels::PackedLayout::kPanel == 0;
      scale_rows.push_back(begins_panel ? std::uint8_t{0}
                                        : static_cast<std::uint8_t>(scale_rows.back() + (is_next ? 1 : 0)));
      last_slice = &slice;
      last_block = block;
    }
  }
  return scale_rows;
}

kernels::ScaledFormat WeightLoader::scaled_format(std::span<const Slice> slices, WeightType type) const {
  const Range columns = slices.front().part.columns;
  const StoredScales scales = source_.scales_of(slices.front().name);
  std::size_t scale_rows = 1;
  for (const std::uint8_t index : scale_rows_of(slices))
    scale_rows = std::max(scale_rows, index + std::size_t{1});
  return {.element = kernels::scaled_element(type),
          .scale_type = scales.type,
          .has_zero_points = scales.has_zero_points,
          .scale_rows = scale_rows,
          .groups = scales.groups_of(columns).size(),
          .group = scales.column_block,
          .phase = scales.column_block == 0 ? 0 : columns.begin % scales.column_block};
}

// Whether stored groups can be loaded unchanged. int8 also holds groups of int4.
bool WeightLoader::takes_groups(std::span<const Slice> slices, const kernels::PackedLayout& layout) const {
  const WeightType type = layout.type;
  if ((type != WeightType::int8 && type != WeightType::int4) || layout.fills_leaves()) return false;
  return std::all_of(slices.begin(), slices.end(), [&](const Slice& slice) {
    if (slice.transposed) return false;
    const std::optional<WeightType> stored = source_.group_type(slice.name, slice.part.columns);
    return stored && (*stored == type || (type == WeightType::int8 && *stored == WeightType::int4));
  });
}

void WeightLoader::fetch(std::span<const Slice> slices, Sharded sharded) const {
  // Announces slices of the same tensor together.
  for (auto first = slices.begin(); first != slices.end();) {
    const auto last =
        std::find_if(first, slices.end(), [&](const Slice& slice) { return slice.name != first->name; });
    std::vector<TensorSlice> parts;
    for (auto slice = first; slice != last; ++slice) parts.push_back(slice->stored_part());
    source_.fetch(first->name, first->stored_shape(), parts,
                  first->transposed == (sharded == Sharded::rows) ? Sharded::columns : Sharded::rows);
    first = last;
  }
}

LocalWeight WeightLoader::load(std::span<const Slice> slices, Sharded sharded, WeightType type,
                               std::size_t leaf) {
  std::size_t rows = 0;
  for (const Slice& slice : slices) rows += slice.part.rows.size();
  const std::size_t columns = slices.front().part.columns.size();
  const std::size_t phase = kernels::quant_format(type) == nullptr
                                ? 0
                                : slices.front().part.columns.begin % kernels::QuantizedRows::kColumns;
  kernels::PackedLayout layout{type, rows, columns, leaf_heads_ != 0, leaf, phase};
  if (kernels::is_scaled(type)) layout.scaled = scaled_format(slices, type);
  loaded_.bytes += layout.bytes();
  if (sharded == Sharded::columns) {
    for (const Slice& slice : slices)
      largest_columns_ = std::max(largest_columns_, slice.part.size() * size_of(source_.dtype(slice.name)));
  }
  if (!reads()) {
    for (const Slice& slice : slices) finish(slice);
    return LocalWeight::shape_of(layout);
  }
  LocalWeight weight(layout);
  fill(slices, layout, weight.memory(), [&] { pack(slices, sharded, weight); });
  for (const Slice& slice : slices) finish(slice);
  return weight;
}

void WeightLoader::fill(std::span<const Slice> slices, const kernels::PackedLayout& layout,
                        std::span<std::byte> memory, const std::function<void()>& make) {
  if (cache_ == nullptr) return make();
  std::string names;
  std::vector<std::uint64_t> numbers = {static_cast<std::uint64_t>(layout.type),
                                        layout.out_features,
                                        layout.in_features,
                                        layout.same_bits ? 1U : 0U,
                                        layout.leaf,
                                        layout.bytes()};
  for (const Slice& slice : slices) {
    names += slice.name + "\n";
    const TensorSlice& part = slice.part;
    numbers.insert(numbers.end(), {slice.shape.rows, slice.shape.columns, slice.rows().begin,
                                   slice.rows().end, part.columns.begin, part.columns.end,
                                   (slice.transposed ? 1U : 0U) + 2 * (slice.apart - 1)});
  }
  const std::uint64_t key = packed_cache_key(names, numbers);
  if (cache_->reads()) return cache_->read(key, memory);
  make();
  cache_->write(key, memory);
}

void WeightLoader::finish(const Slice& slice) {
  if (reads() && !slice.has_more) source_.done_with(slice.name);
  loaded_.elements += slice.part.size();
  if (progress_) progress_(loaded_.elements);
}

WeightLoader::Slice WeightLoader::slice_of(const StoredLayer& layer, const TensorSlice& part) {
  Slice slice{layer.is_tensor ? layer.name : tensor_names::weight_of(layer.name), layer.shape, part,
              layer.transposed};
  std::string reason = layer.transposed ? fmt::format("{}, {}", layer.in_reason, layer.out_reason)
                                        : fmt::format("{}, {}", layer.out_reason, layer.in_reason);
  if (const StackPlace& stack = layer.stack; stack.matrices != 0) {
    slice.name = layer.name;
    slice.has_more = stack.index + 1 < stack.matrices;
    reason = "experts, " + reason;
    if (layer.transposed) {
      const std::size_t columns = slice.shape.columns;
      slice.shape.columns *= stack.matrices;
      slice.part.columns = {part.columns.begin + stack.index * columns,
                            part.columns.end + stack.index * columns};
    } else {
      slice.first = stack.index * slice.shape.rows;
      slice.shape.rows *= stack.matrices;
    }
  }
  source_.expect(slice.name, slice.stored_shape(), reason);
  return slice;
}

WeightLoader::Slice WeightLoader::slice_of(const OwnedRows& part) {
  Slice slice = slice_of(part.layer, TensorSlice::of_rows(part.layer.shape, part.rows));
  slice.first += part.first;
  slice.apart = part.apart;
  return slice;
}

// A bias is a column here, but stored as a row.
WeightLoader::Slice WeightLoader::slice_of_bias(const OwnedRows& part) {
  const StackPlace& stack = part.layer.stack;
  const std::size_t size = part.layer.shape.rows;
  if (stack.matrices == 0) {
    const MatrixShape shape{1, size};
    source_.expect(tensor_names::bias_of(part.layer.name), shape, part.layer.out_reason);
    return {
        tensor_names::bias_of(part.layer.name), {size, 1}, {part.rows, {0, 1}}, true, part.first, part.apart};
  }
  source_.expect(stack.bias, {stack.matrices, size}, "experts, " + part.layer.out_reason);
  return {stack.bias,
          {size, stack.matrices},
          {part.rows, {stack.index, stack.index + 1}},
          true,
          part.first,
          part.apart,
          stack.index + 1 < stack.matrices};
}

void WeightLoader::read(const Slice& slice, const TensorSlice& part, TensorView<float> out) const {
  if (!slice.transposed) return source_.read(slice.name, slice.shape, part, out);
  std::vector<float> memory(out.size());
  const TensorView<float> stored(memory.data(), part.columns.size(), part.rows.size());
  source_.read(slice.name, slice.stored_shape(), {part.columns, part.rows}, stored);
  for (std::size_t row = 0; row < out.rows(); ++row) {
    for (std::size_t column = 0; column < out.columns(); ++column) out(row, column) = stored(column, row);
  }
}

std::vector<LocalWeight> WeightLoader::rows_of_weights(std::span<const OwnedRows> parts, bool of_vocabulary) {
  std::vector<Slice> slices;
  for (const OwnedRows& part : parts) slices.push_back(slice_of(part));
  std::vector<LocalWeight> weights;
  for (std::size_t begin = 0, end = 0; begin < slices.size(); begin = end) {
    const WeightType type = type_of(slices[begin]);
    while (end < slices.size() && are_held_alike(slices[begin], slices[end])) ++end;
    weights.push_back(load(std::span(slices).subspan(begin, end - begin), Sharded::rows,
                           of_vocabulary ? vocabulary_type(type) : type));
  }
  return weights;
}

LocalWeight WeightLoader::rows_of_weight(const OwnedRows& part) {
  const Slice slice = slice_of(part);
  return load({&slice, 1}, Sharded::rows, type_of(slice));
}

LocalWeight WeightLoader::rows_of_vocabulary(const OwnedRows& part) {
  const Slice slice = slice_of(part);
  return load({&slice, 1}, Sharded::rows, vocabulary_type(type_of(slice)));
}

std::vector<MappedRows> WeightLoader::mapped_rows(std::span<const StoredLayer> layers) {
  std::vector<MappedRows> all;
  for (const StoredLayer& layer : layers) {
    const Slice slice = slice_of(layer, TensorSlice::whole(layer.shape));
    std::optional<MappedRows> rows;
    if (keeps_values(slice)) rows = source_.mapped_rows(slice.name, slice.shape);
    if (!rows) return {};
    all.push_back(*std::move(rows));
  }
  for (const MappedRows& rows : all) {
    loaded_.mapped_bytes += rows.bytes();
    if (reads()) rows.expect_random_reads();
  }
  return all;
}

LocalWeight WeightLoader::columns_of_weight(const StoredLayer& layer, Range columns, std::size_t leaf) {
  const Slice slice = slice_of(layer, TensorSlice::of_columns(layer.shape, columns));
  return load({&slice, 1}, Sharded::columns, type_of(slice, leaf), leaf);
}

Buffer<float> WeightLoader::whole_weight(const StoredLayer& layer) {
  return whole(slice_of(layer, TensorSlice::whole(layer.shape)));
}

Buffer<float> WeightLoader::whole_tensor(const StoredLayer& layer) {
  source_.expect(layer.name, layer.shape, fmt::format("{}, {}", layer.out_reason, layer.in_reason));
  return whole({layer.name, layer.shape, TensorSlice::whole(layer.shape)});
}

Buffer<float> WeightLoader::whole(const Slice& slice) {
  Buffer<float> elements;
  if (reads()) elements = Buffer<float>(slice.part.size(), kWeightMemory);
  read_whole(slice, elements.data());
  return elements;
}

std::vector<float> WeightLoader::elements_of(const Slice& slice) {
  std::vector<float> elements(slice.part.size());
  read_whole(slice, elements.data());
  return elements;
}

void WeightLoader::read_whole(const Slice& slice, float* out) {
  const kernels::PackedLayout as_stored{WeightType::f32, slice.part.rows.size(), slice.part.columns.size()};
  if (reads()) {
    fill({&slice, 1}, as_stored, std::as_writable_bytes(std::span(out, slice.part.size())), [&] {
      fetch({&slice, 1}, slice.transposed ? Sharded::columns : Sharded::rows);  // whole rows of the file
      const TensorView<float> rows(out, slice.part.rows.size(), slice.part.columns.size());
      slice.for_runs(slice.part.rows, [&](const TensorSlice& run, std::size_t place) {
        const TensorView<float> own = rows.rows_from(place, run.rows.size());
        read(slice, run, own);
        require_finite(source_, slice.name, StoredRows::of(own));
      });
    });
  }
  loaded_.bytes += slice.part.size() * sizeof(float);
  finish(slice);
}

std::vector<float> WeightLoader::rows_of_biases(std::span<const OwnedRows> parts) {
  std::vector<float> all;
  for (const OwnedRows& part : parts) {
    const std::vector<float> bias = elements_of(slice_of_bias(part));
    all.insert(all.end(), bias.begin(), bias.end());
  }
  return all;
}

std::vector<float> WeightLoader::whole_vector(const std::string& name, std::size_t size,
                                              const std::string& reason) {
  return part_of_vector(name, size, {0, size}, reason);
}

std::vector<float> WeightLoader::part_of_vector(const std::string& name, std::size_t size, Range part,
                                                const std::string& reason) {
  const MatrixShape shape{1, size};
  source_.expect(name, shape, reason);
  return elements_of({name, shape, TensorSlice::of_columns(shape, part)});
}

std::vector<float> WeightLoader::rows_of_tensor(const StoredLayer& layer, Range rows) {
  source_.expect(layer.name, layer.shape, fmt::format("{}, {}", layer.out_reason, layer.in_reason));
  return elements_of({layer.name, layer.shape, TensorSlice::of_rows(layer.shape, rows)});
}

std::vector<std::string> WeightLoader::unread_tensors() {
  if (!reads()) return {};
  const std::uint64_t key = packed_cache_key("unread tensors", {});
  std::vector<std::string> unread;
  if (has_cached()) {
    std::istringstream lines(cache_->read_text(key));
    for (std::string line; std::getline(lines, line);) unread.push_back(line);
    return unread;
  }
  if (tp_.is_first()) unread = source_.unread();
  if (cache_ != nullptr) {
    const std::string text = fmt::format("{}", fmt::join(unread, "\n"));
    cache_->write(key, std::as_bytes(std::span(text)));
  }
  return unread;
}

std::optional<std::size_t> WeightLoader::first_different_row(const OwnedRows& part,
                                                             const StoredLayer& other) {
  if (!reads() || has_cached()) return std::nullopt;  // a weight with differing rows is never cached
  const Slice one = slice_of(part.layer, TensorSlice::of_rows(part.layer.shape, part.rows));
  const Slice two = slice_of(other, TensorSlice::of_rows(other.shape, part.rows));
  fetch({&one, 1}, Sharded::rows);
  fetch({&two, 1}, Sharded::rows);
  const std::size_t columns = part.layer.shape.columns;
  std::optional<std::size_t> first;
  std::mutex mutex;
  for_thread_parts(part.rows.size(), one.part.size(), [&](std::size_t begin, std::size_t end) {
    std::vector<float> row_of_one(columns);
    std::vector<float> row_of_two(columns);
    for (std::size_t row = part.rows.begin + begin; row < part.rows.begin + end; ++row) {
      const TensorSlice wanted = TensorSlice::of_rows(part.layer.shape, {row, row + 1});
      read(one, wanted, {row_of_one.data(), 1, columns});
      read(two, wanted, {row_of_two.data(), 1, columns});
      if (std::memcmp(row_of_one.data(), row_of_two.data(), columns * sizeof(float)) == 0) continue;
      const std::lock_guard lock(mutex);
      first = std::min(first.value_or(row), row);
      return;
    }
  });
  source_.done_with(two.name);
  return first;
}

}  // namespace tp
