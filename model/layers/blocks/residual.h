// The residual stream, which blocks read and add to.
#pragma once

#include "model/kernels/elementwise.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "parallel/exchange/collectives.h"

#include <optional>

namespace tp {

// [tokens, hidden_size], the same on every rank. Some models have several streams, stored side by side, and
// after them weights of streams that the next connection reads (HyperConnectionSpec::lags). This class
// computes all of a step's sums over ranks except those in ProjectionNorm, GroupNorm, GatedMlp, Mamba1,
// LowRankConnection, MixtureOfExperts (with a latent), HashTable, PerLayerInputs, SelfConditioning and
// NextTokenInput.
class Residual {
 public:
  // Sets all streams to the embedding, after the model's norm and projection to hidden_size, if any
  // (`projection` may be null). `weights`: of streams, of which the first becomes 1, the others 0. Collective
  // unless `comm` is null (a shape-only step); throws CommError.
  Residual(Communicator* comm, PartialSum embedding, const std::optional<Norm>& norm,
           const ColumnParallelLinear* projection, std::size_t streams, std::size_t weights,
           const StepContext& step)
      : Residual(comm, begin(comm, std::move(embedding), norm, projection, streams, weights, step), step,
                 streams, weights) {}
  // Starts with the previous stage's streams, [tokens, streams * hidden_size + weights], or with one stream:
  // the input that NextTokenInput or SelfConditioning computes, or the stream of a site.
  Residual(Communicator* comm, TensorView<float> x, const StepContext& step, std::size_t streams = 1,
           std::size_t weights = 0)
      : comm_(comm),
        step_(step),
        x_(x),
        stream_size_((x.columns() - weights) / streams),
        streams_(streams),
        frame_(step.workspace) {}

  // x = norm(x)
  void apply(const Norm& norm);

  // A part's input: norm(x), [tokens, hidden_size].
  TensorView<const float> normed(const Norm& norm) const { return norm(x_, step_.workspace); }
  // norm(x), or x itself if there is no norm.
  TensorView<const float> normed(const std::optional<Norm>& norm) const { return norm ? normed(*norm) : x_; }

  // For several streams: norm(x[stream]).
  TensorView<const float> normed(const Norm& norm, std::size_t stream) const {
    return norm(this->stream(stream), step_.workspace);
  }

  // x += scale * post_norm(sum over ranks), or scale * sum without a post_norm. Releases the workspace taken
  // since the last sum. Collective; throws CommError.
  void add_all_reduced(PartialSum sum, const std::optional<Norm>& post_norm, float scale);
  // The sum over ranks after `norm`, if any, [tokens, hidden_size]. The result is valid until the next sum is
  // added. Collective; throws CommError.
  TensorView<float> reduced(PartialSum sum, const std::optional<Norm>& norm = std::nullopt) const;
  // x += scale * post_norm(whole). whole: [tokens, hidden_size], equal on every rank; overwritten. Releases
  // the workspace taken since the last sum.
  void add(TensorView<float> whole, const std::optional<Norm>& post_norm, float scale = 1.0F);
  // x *= factor
  void scale(float factor);
  // x[row] *= factor
  void scale_row(std::size_t row, float factor);
  // For several streams: x[stream] += sum over ranks.
  void add_all_reduced(PartialSum sum, std::size_t stream);

  // Runs use(one) on the stream that `site` makes of all streams, and lets the site change the streams by the
  // result. Releases the workspace taken since the last sum. The guide is model/config/families/README.md.
  template <class Site, class Use>
  void at(const Site& site, const Use& use) {
    {
      Residual one(comm_, site.enter(x_, step_), step_);
      use(one);
      site.leave(one.rows(), step_, x_);
    }
    frame_.clear();
  }
  // Adds the output of a half of a block, use(input), to the streams. `connection` makes the input of all
  // streams, and adds the sum over ranks of the output to each of them. Releases the workspace taken since
  // the last sum. Collective; throws CommError.
  template <class Connection, class Use>
  void through(const Connection& connection, const Use& use) {
    const auto entered = connection.enter(x_, step_);
    connection.leave(reduced(use(entered.input)), entered, x_);
    frame_.clear();
  }
  // For several streams: x += addend(x, step), which is the same on every rank. Releases the workspace taken
  // since the last sum. Collective if `addend` is.
  template <class Addend>
  void add_to_all(const Addend& addend) {
    const TensorView<float> all = x_.columns_from(0, streams_ * stream_size_);
    const TensorView<float> whole = addend(all, step_);
    if (comm_ != nullptr) kernels::add(whole, all);
    frame_.clear();
  }
  // For several streams: x[i] += whole for i >= first. whole: as for add().
  void add_to_streams(std::size_t first, TensorView<const float> whole);

  // [tokens, streams * hidden_size + weights]
  TensorView<const float> rows() const { return x_; }
  // [tokens, hidden_size]
  TensorView<float> stream(std::size_t index) { return x_.columns_from(index * stream_size_, stream_size_); }
  TensorView<const float> stream(std::size_t index) const {
    return x_.columns_from(index * stream_size_, stream_size_);
  }

 private:
  static TensorView<float> shape_of(const PartialSum& sum, const StepContext& step) {
    step.count_sum(sum);
    return sum.shape();
  }
  static TensorView<float> begin(Communicator* comm, PartialSum embedding, const std::optional<Norm>& norm,
                                 const ColumnParallelLinear* projection, std::size_t streams,
                                 std::size_t weights, const StepContext& step);

  Communicator* comm_;
  const StepContext& step_;
  TensorView<float> x_;
  std::size_t stream_size_;
  std::size_t streams_;
  Workspace::Frame frame_;  // covers all workspace memory taken after x_
};

}  // namespace tp
