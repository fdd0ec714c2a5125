#include "model/layers/stream_projection.h"

#include <algorithm>
#include <string>

namespace tp {
namespace {

std::vector<Norm> load_stream_norms(WeightLoader& loader, const DrafterNames& names,
                                    const DrafterSpec& spec) {
  std::vector<Norm> norms;
  for (std::size_t i = 0; spec.norms_streams && i < spec.streams; ++i)
    norms.emplace_back(loader, names.stream_norms + std::to_string(i), spec.stream_size, spec.norm,
                       "target_hidden_size");
  return norms;
}

std::optional<Norm> load_all_streams_norm(WeightLoader& loader, const DrafterNames& names,
                                          const DrafterSpec& spec) {
  if (!spec.norms_all_streams) return std::nullopt;
  return Norm(loader, names.all_streams_norm, spec.streams * spec.stream_size, spec.norm,
              "streams x target_hidden_size");
}

}  // namespace

StreamProjection::StreamProjection(WeightLoader& loader, const DrafterNames& names, std::size_t hidden_size,
                                   const DrafterSpec& spec)
    : stream_norms_(load_stream_norms(loader, names, spec)),
      all_streams_norm_(load_all_streams_norm(loader, names, spec)),
      size_(spec.streams * spec.stream_size),
      columns_(loader.own_columns(size_)),
      projection_(loader,
                  {names.projection, {hidden_size, size_}, "hidden_size", "streams x target_hidden_size"},
                  columns_, false, loader.leaf_of_columns(size_)) {}

PartialSum StreamProjection::operator()(const StepContext& step) const {
  const std::size_t tokens = step.batch.tokens.size();
  const TensorView<float> own = step.workspace.take(tokens, columns_.size());
  {
    const Workspace::Frame frame(step.workspace);
    const TensorView<float> row = step.workspace.take(1, size_);
    for (std::size_t token = 0; token < tokens && !row.empty(); ++token) {
      const float* const streams = step.batch.states_before[token];
      if (streams == nullptr) {
        std::fill_n(own.row(token), own.columns(), 0.0F);
        continue;
      }
      std::copy_n(streams, size_, row.row(0));
      for (std::size_t i = 0; i < stream_norms_.size(); ++i) {
        const std::size_t size = size_ / stream_norms_.size();
        stream_norms_[i].apply_in_place(row.columns_from(i * size, size));
      }
      if (all_streams_norm_) all_streams_norm_->apply_in_place(row);
      std::copy_n(row.row(0) + columns_.begin, columns_.size(), own.row(token));
    }
  }
  return projection_(own, step);
}

}  // namespace tp
