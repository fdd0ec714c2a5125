#include "model/layers/markov_head.h"

#include "model/config/tensor_names.h"
#include "model/kernels/elementwise.h"
#include "parallel/exchange/collectives.h"
#include "parallel/shard/partial_sum.h"

#include <algorithm>
#include <numeric>

namespace tp {
namespace {

std::vector<float> load_confidence(WeightLoader& loader, const DrafterNames& names, std::size_t hidden_size,
                                   const MarkovSpec& spec) {
  if (!spec.has_confidence) return {};
  const std::size_t columns = hidden_size + (spec.confidence_reads_token ? spec.rank : 0);
  return loader.rows_of_tensor(
      {tensor_names::weight_of(names.confidence), {1, columns}, "one row", "hidden_size + markov_rank"},
      {0, 1});
}

}  // namespace

MarkovHead::MarkovHead(WeightLoader& loader, const DrafterNames& names, std::size_t vocab_size,
                       std::size_t hidden_size, const MarkovSpec& spec)
    : input_(loader, names.markov_input, vocab_size, spec.rank),
      output_(loader, names.markov_output, vocab_size, spec.rank),
      confidence_reads_token_(spec.confidence_reads_token),
      confidence_(load_confidence(loader, names, hidden_size, spec)),
      confidence_bias_(spec.has_confidence
                           ? loader.whole_vector(tensor_names::bias_of(names.confidence), 1, "one row")
                           : std::vector<float>()) {}

std::optional<float> MarkovHead::correct(Communicator& comm, TokenId previous, std::span<const float> state,
                                         TensorView<float> local_logits, Workspace& workspace) const {
  const Workspace::Frame frame(workspace);
  const TensorView<float> token = workspace.take(1, input_.weight().in_features());
  if (!input_.copy_row(static_cast<std::size_t>(previous), token.row(0)))
    std::fill_n(token.row(0), token.columns(), 0.0F);
  const TensorView<float> vector = all_reduce(comm, PartialSum(token));
  kernels::add(output_.weight().multiply(vector, workspace), local_logits);
  if (confidence_.empty()) return std::nullopt;
  const float* const rest = confidence_.data() + state.size();
  float sum = confidence_bias_.front();
  sum = std::inner_product(state.begin(), state.end(), confidence_.begin(), sum);
  if (confidence_reads_token_) sum = std::inner_product(rest, rest + vector.columns(), vector.row(0), sum);
  return sum;
}

std::size_t MarkovHead::workspace_floats() const {
  Workspace workspace = Workspace::counting();
  const TensorView<float> token = workspace.take(1, input_.weight().in_features());
  output_.weight().multiply(token, workspace);
  return workspace.peak_bytes() / sizeof(float);
}

}  // namespace tp
