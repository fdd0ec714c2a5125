#include "model/layers/attention/compressor.h"

#include "model/kernels/index_keys.h"
#include "model/kernels/rope.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <string>

namespace tp {
namespace {

constexpr const char* kSeries = "head_dim, twice if the layer's pools overlap";

Buffer<float> load_addends(WeightLoader& loader, const CompressedAttentionSpec& spec, std::size_t columns,
                           const std::string& name) {
  if (spec.pool_addends) return loader.whole_tensor({name, {spec.pool, columns}, "compress_ratios", kSeries});
  Buffer<float> none(spec.pool * columns, "addends of gates");
  std::fill_n(none.data(), none.size(), 0.0F);
  return none;
}

}  // namespace

// The largest position matters to longrope only, which no model with compressed attention has.
Compressor::Compressor(WeightLoader& loader, const CompressedAttentionSpec& spec, std::size_t size,
                       const CompressorNames& names, std::size_t state_offset)
    : size_(size),
      series_(spec.series()),
      has_gates_(spec.has_gates()),
      rotary_dim_(spec.rope.value().rotary_dim),
      rope_(spec.rope.value(), 0),
      addends_(load_addends(loader, spec, series_ * size, names.addends)),
      norm_(loader, names.norm, size, {.eps = spec.norm_eps}, "head_dim"),
      pools_(spec.pool, down_size(spec, size), spec.overlap, state_offset) {}

std::vector<OwnedRows> Compressor::down_rows(const CompressedAttentionSpec& spec, std::size_t size,
                                             std::size_t hidden_size, const CompressorNames& names) {
  const std::size_t rows = spec.series() * size;
  std::vector<OwnedRows> owned = {{{names.key_proj, {rows, hidden_size}, kSeries, "hidden_size"}, {0, rows}}};
  if (spec.has_gates())
    owned.push_back({{names.gate_proj, {rows, hidden_size}, kSeries, "hidden_size"}, {0, rows}});
  return owned;
}

// The first series belongs to the pool after a position's own, the last one to its own pool.
void Compressor::sum_rows(const OpenPools::Closed& pool, float* out) const {
  if (!has_gates_) {
    std::copy_n(pool.rows.front(), size_, out);
    return;
  }
  std::vector<kernels::GatedRow> rows;
  const auto append = [&](const std::vector<const float*>& raw, std::size_t series) {
    for (std::size_t row = 0; row < raw.size(); ++row) {
      const float* const key = raw[row] + series * size_;
      rows.push_back({key, key + series_ * size_, addends_.data() + (row * series_ + series) * size_});
    }
  };
  append(pool.rows_before, 0);
  append(pool.rows, series_ - 1);
  kernels::pool_by_gates(rows, {out, size_});
}

Compressor::Pools Compressor::close(TensorView<const float> raw, const StepContext& step) const {
  const TensorView<float> room = step.workspace.take(raw.rows(), size_);
  if (raw.empty()) return {{}, room};
  const std::vector<OpenPools::Closed> closed = pools_.closed(raw, step);
  const std::size_t rows = closed.empty() ? 0 : closed.front().rows.size();
  for_thread_parts(closed.size(), closed.size() * rows * series_ * size_,
                   [&](std::size_t begin, std::size_t end) {
                     for (std::size_t i = begin; i < end; ++i) sum_rows(closed[i], room.row(i));
                   });
  Pools made{{}, room.rows_from(0, closed.size())};
  for (const OpenPools::Closed& pool : closed) made.pools.push_back({pool.span, pool.number});
  if (!closed.empty()) norm_.apply_in_place(made.vectors);
  pools_.keep(raw, step);
  return made;
}

void Compressor::rotate(const Pools& pools, TensorView<float> x, const StepContext& step) const {
  const Workspace::Frame frame(step.workspace);
  std::vector<std::size_t> first(x.rows());
  for (std::size_t i = 0; i < pools.pools.size(); ++i) first[i] = pools.pools[i].number * pools_.size();
  const RopeAngles angles = rope_(first, step.workspace);
  if (x.empty()) return;
  kernels::rotate_pairs(x.columns_from(x.columns() - rotary_dim_, rotary_dim_), rotary_dim_, angles.cosine,
                        angles.sine);
}

}  // namespace tp
