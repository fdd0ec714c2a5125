#include "model/layers/attention/compressor.h"

#include "model/kernels/index_keys.h"
#include "model/kernels/rope.h"
#include "tp/internal/threads.h"

namespace tp {
namespace {

constexpr const char* kSeries = "head_dim, twice if the layer's pools overlap";

}  // namespace

// The largest position matters to longrope only, which no model with compressed attention has.
Compressor::Compressor(WeightLoader& loader, const CompressedAttentionSpec& spec, std::size_t size,
                       const CompressorNames& names, std::size_t state_offset)
    : size_(size),
      series_(spec.series()),
      rotary_dim_(spec.rope.value().rotary_dim),
      rope_(spec.rope.value(), 0),
      addends_(loader.whole_tensor({names.addends, {spec.pool, series_ * size}, "compress_ratios", kSeries})),
      norm_(loader, names.norm, size, {.eps = spec.norm_eps}, "head_dim"),
      pools_(spec.pool, down_size(spec, size), spec.overlap, state_offset) {}

std::vector<OwnedRows> Compressor::down_rows(const CompressedAttentionSpec& spec, std::size_t size,
                                             std::size_t hidden_size, const CompressorNames& names) {
  const std::size_t rows = spec.series() * size;
  return {{{names.key_proj, {rows, hidden_size}, kSeries, "hidden_size"}, {0, rows}},
          {{names.gate_proj, {rows, hidden_size}, kSeries, "hidden_size"}, {0, rows}}};
}

// The first series belongs to the pool after a position's own, the last one to its own pool.
void Compressor::sum_rows(const OpenPools::Closed& pool, float* out) const {
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

std::vector<Compressor::Pool> Compressor::close(TensorView<const float> raw, const StepContext& step) const {
  // Room for as many vectors as the step has tokens, because a shape-only step closes no pools.
  const TensorView<float> room = step.workspace.take(raw.rows(), size_);
  const Workspace::Frame frame(step.workspace);
  const std::vector<OpenPools::Closed> closed = pools_.closed(raw, step);
  const std::size_t rows = closed.empty() ? 0 : closed.front().rows.size();
  for_thread_parts(closed.size(), closed.size() * rows * series_ * size_,
                   [&](std::size_t begin, std::size_t end) {
                     for (std::size_t i = begin; i < end; ++i) sum_rows(closed[i], room.row(i));
                   });
  std::vector<std::size_t> first(raw.rows());
  for (std::size_t i = 0; i < closed.size(); ++i) first[i] = closed[i].number * pools_.size();
  const RopeAngles angles = rope_(first, step.workspace);
  const TensorView<float> vectors = room.rows_from(0, closed.size());
  if (!vectors.empty()) {
    norm_.apply_in_place(vectors);
    kernels::rotate_pairs(vectors.columns_from(size_ - rotary_dim_, rotary_dim_), rotary_dim_,
                          angles.cosine.rows_from(0, closed.size()), angles.sine.rows_from(0, closed.size()));
  }
  std::vector<Pool> pools;
  for (std::size_t i = 0; i < closed.size(); ++i)
    pools.push_back({closed[i].span, closed[i].number, vectors.row(i)});
  pools_.keep(raw, step);
  return pools;
}

}  // namespace tp
