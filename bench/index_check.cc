#include "bench/index_check.h"

#include "model/config/architectures.h"
#include "model/kernels/half.h"
#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/indexer.h"
#include "model/layers/linear/rope.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/workspace.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "model/weights/weight_loader.h"
#include "tests/reference/index_keys.h"
#include "tests/reference/random.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace tp::bench {
namespace {

using reference::Random;

float rounded(float value) { return kernels::bf16_to_float(kernels::float_to_bf16(value)); }

std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) value = rounded(value);
  return values;
}

TensorView<float> row_of(std::vector<float>& values) { return {values.data(), 1, values.size()}; }

// Returns the product of a matrix [rows, columns] and the vector x [columns].
std::vector<float> product(TensorView<const float> matrix, std::span<const float> x) {
  std::vector<float> y;
  for (std::size_t row = 0; row < matrix.rows(); ++row) {
    double sum = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(matrix(row, i)) * x[i];
    y.push_back(static_cast<float>(sum));
  }
  return y;
}

// Applies the rotary embedding to a head's first elements.
void rotate(std::span<float> head, const RopeAngles& angles, bool pairs) {
  const std::size_t half = angles.cosine.columns();
  for (std::size_t i = 0; i < half; ++i) {
    float& one = head[pairs ? 2 * i : i];
    float& other = head[pairs ? 2 * i + 1 : i + half];
    const double cosine = angles.cosine(0, i);
    const double sine = angles.sine(0, i);
    const double turned = one * cosine - other * sine;
    other = static_cast<float>(one * sine + other * cosine);
    one = static_cast<float>(turned);
  }
}

// Returns whether the lowest chosen score differs from all other scores by more than the rounding of sums.
bool is_clear(std::vector<double> scores, std::size_t count) {
  constexpr double kRounding = 1e-5;
  std::ranges::sort(scores, std::greater<>());
  const double largest = std::max(std::abs(scores.front()), std::abs(scores.back()));
  const double min = scores[count - 1];
  return std::ranges::none_of(
      scores, [&](double score) { return score != min && std::abs(score - min) < kRounding * largest; });
}

class IndexCheck {
 public:
  IndexCheck(Communicator& comm, const ModelSpec& spec, const Model& model, const FilledOptions& options)
      : comm_(comm),
        spec_(std::get<LatentAttentionSpec>(spec.blocks.front().attention)),
        context_(options.context),
        rope_(*spec_.rope, options.context + 1),
        cache_(comm, spec, model, options, true),
        workspace_(model.workspace_floats({.tokens = 1,
                                           .outputs = 1,
                                           .kv_type = KvType::bf16,
                                           .block_size = cache_.get().layer(0).layout.block_size,
                                           .max_blocks = cache_.tables().front().size()})),
        names_(family_of("DeepseekV32ForCausalLM")
                   .names.names_of_block("model.layers.0.")
                   .latent_attention.indexer),
        loader_(weights_, {comm.rank(), comm.size()}, WeightType::bf16, {}),
        indexer_(loader_, indexer(), spec_.rope, *spec_.q_lora_rank, names_) {}

  // Compares the choice for one random token. Returns false, without comparing, if rounding may change the
  // choice.
  bool compare(std::uint64_t seed) {
    const Workspace::Frame frame(workspace_);
    Random random(seed);
    // bf16 numbers keep kernels from rounding activations.
    std::vector<float> latent = rounded(random.numbers(*spec_.q_lora_rank));
    std::vector<float> down = random.numbers(Indexer::down_size(indexer()));
    const std::vector<std::size_t> positions = {context_};
    const RopeAngles angles = rope_(positions, workspace_);
    const std::vector<std::int32_t> found = choice_of(row_of(latent), row_of(down), angles);
    std::vector<float> query = product(query_weight(), latent);
    for (std::size_t head = 0; head < indexer().num_heads; ++head)
      rotate(std::span(query).subspan(head * indexer().head_dim, indexer().head_dim), angles,
             indexer().interleaved_rope);
    const std::vector<double> scores = scores_of(query, down);
    if (!is_clear(scores, found.size())) return false;
    require<CommError>(found == reference::highest(std::span<const double>(scores), found.size()),
                       "expected the {} positions with the highest scores of {}, found others on rank {}; "
                       "fix this before measuring",
                       found.size(), scores.size(), comm_.rank());
    return true;
  }

 private:
  const IndexerSpec& indexer() const { return *spec_.indexer; }

  // Returns the positions that the ranks choose. `down` [1, down_size] becomes the token's key and the
  // weights of heads.
  std::vector<std::int32_t> choice_of(TensorView<float> latent, TensorView<float> down,
                                      const RopeAngles& angles) {
    Batch batch;
    batch.spans[0].push_back({0, 1, context_, cache_.tables().front()});
    batch.positions = {context_};
    const StepContext step{.batch = batch,
                           .workspace = workspace_,
                           .ropes = {&angles, 1},
                           .tracer = &comm_.tracer(),
                           .comm = &comm_,
                           .chosen = workspace_.take(1, indexer().top_k),
                           .shared_cache = cache_.get().shared(0)};
    const kernels::PagedCache& cache = cache_.get().layer(0);
    indexer_.remember(down, step, cache);
    indexer_.choose(latent, down, step, cache);
    const std::span<std::int32_t> chosen = chosen_by(step, 0, indexer().top_k);
    return {chosen.begin(), chosen.end()};
  }

  // [heads * head_dim, q_lora_rank]
  TensorView<const float> query_weight() {
    const MatrixShape shape{indexer().num_heads * indexer().head_dim, *spec_.q_lora_rank};
    if (query_weight_.empty()) {
      query_weight_.resize(shape.size());
      weights_.read(names_.q_b_proj + ".weight", shape, TensorSlice::of_rows(shape, {0, shape.rows}),
                    {query_weight_.data(), shape.rows, shape.columns});
    }
    return {query_weight_.data(), shape.rows, shape.columns};
  }

  // The cache stores keys in bf16, so keys are rounded first.
  std::vector<double> scores_of(std::span<const float> query, std::span<const float> down) const {
    const std::size_t dim = indexer().head_dim;
    const std::span<const float> weight = down.subspan(dim);
    std::vector<double> scores;
    for (std::size_t position = 0; position < context_; ++position)
      scores.push_back(reference::index_score(query, weight, rounded(cache_.index_key(0, 0, position))));
    scores.push_back(reference::index_score(query, weight, rounded({down.begin(), down.begin() + dim})));
    return scores;
  }

  Communicator& comm_;
  const LatentAttentionSpec& spec_;
  std::size_t context_;
  Rope rope_;
  FilledCache cache_;
  Workspace workspace_;
  IndexerNames names_;
  SyntheticWeights weights_;
  WeightLoader loader_;
  Indexer indexer_;
  std::vector<float> query_weight_;
};

}  // namespace

void verify_choices(Communicator& comm, const ModelSpec& spec, const Model& model,
                    const FilledOptions& options) {
  constexpr std::uint64_t kTokens = 4;
  IndexCheck check(comm, spec, model, options);
  std::size_t compared = 0;
  for (std::uint64_t seed = 1; seed <= kTokens; ++seed) compared += check.compare(seed) ? 1 : 0;
  require<CommError>(compared != 0,
                     "expected choices that rounding cannot change, found none of {}; change "
                     "index_topk",
                     kTokens);
}

}  // namespace tp::bench
