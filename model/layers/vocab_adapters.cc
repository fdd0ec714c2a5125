#include "model/layers/vocab_adapters.h"

#include "model/files/printable.h"
#include "model/kernels/experts.h"
#include "model/layers/linear/adapted_rows.h"
#include "model/layers/linear/adapter_weight.h"
#include "model/weights/adapters/adapter.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <span>
#include <utility>

namespace tp {
namespace {

// The adapter's own table in place of the model's, or null.
const AdapterMatrix* own_table(WeightLoader& loader, const Adapter& adapter, const VocabLayer& layer) {
  const AdapterMatrix* const own = adapter.find_tensor(tensor_names::weight_of(layer.name));
  if (own == nullptr) return nullptr;
  require<ConfigError>(own->shape == layer.shape,
                       "{}: the adapter {} replaces {} by [{}, {}], expected [{}, {}] as in the model: "
                       "vocabularies that have grown "
                       "are not supported; merge the adapter into the model with PEFT",
                       printable(adapter.place), printable(adapter.name), printable(layer.name),
                       own->shape.rows, own->shape.columns, layer.shape.rows, layer.shape.columns);
  loader.use(*own);
  return own;
}

}  // namespace

EmbeddingAdapters::EmbeddingAdapters(WeightLoader& loader, const VocabLayer& layer) : tokens_(layer.tokens) {
  for_adapters(loader, [&](std::size_t index, const Adapter& adapter) {
    TableAdapter part{.adapter = index, .saved = {}, .factors = load_factors(loader, adapter, layer)};
    if (const AdapterMatrix* const own = own_table(loader, adapter, layer))
      part.saved = load_saved_rows(loader, *own, tokens_);
    if (part.saved || part.factors) all_.push_back(std::move(part));
  });
}

std::optional<EmbeddingAdapters::Factors> EmbeddingAdapters::load_factors(WeightLoader& loader,
                                                                          const Adapter& adapter,
                                                                          const VocabLayer& layer) {
  const AdapterLayer* const found = adapter.find(layer.name);
  if (found == nullptr) return std::nullopt;
  const std::size_t rank = found->rank();
  require<CheckpointError>(
      found->is_embedding && found->a.shape.columns == layer.shape.rows &&
          found->b.shape.rows == layer.shape.columns,
      "{}: the adapter {} has factors [{}, {}] and [{}, {}] of {}, expected lora_embedding_A [rank, {}] and "
      "lora_embedding_B [{}, rank]; choose an adapter of this model",
      printable(adapter.place), printable(adapter.name), found->a.shape.rows, found->a.shape.columns,
      found->b.shape.rows, found->b.shape.columns, printable(layer.name), layer.shape.rows,
      layer.shape.columns);
  loader.use(found->a);
  StackedRows a(loader, layer.tokens.size());
  a.append(found->a, {{0, rank}, layer.tokens});
  StackedRows b(loader, rank);
  b.append(found->b, TensorSlice::whole(found->b.shape));
  Factors factors{.a = std::vector<float>(a.values().size()), .b = b.packed(loader, {0, rank})};
  for (std::size_t i = 0; i < factors.a.size(); ++i)
    factors.a[i] = found->scale * a.values()[i % rank * layer.tokens.size() + i / rank];
  loader.count_adapter(rank * layer.tokens.size() * sizeof(float));
  return factors;
}

void EmbeddingAdapters::apply(const StepContext& step, TensorView<float> vectors) const {
  for_adapted_rows(all_, step, vectors.rows(), !vectors.empty(),
                   [&](const TableAdapter& adapter, std::span<const std::size_t> rows) {
                     apply(adapter, rows, step, vectors);
                   });
}

void EmbeddingAdapters::apply(const TableAdapter& adapter, std::span<const std::size_t> rows,
                              const StepContext& step, TensorView<float> vectors) const {
  const std::vector<TokenId>& tokens = step.batch.tokens;
  const auto id_of = [&](std::size_t row) { return static_cast<std::size_t>(tokens[row]); };
  if (adapter.saved && !vectors.empty()) {
    for (const std::size_t row : rows) {
      if (tokens_.contains(id_of(row)))
        adapter.saved->unpack_row(id_of(row) - tokens_.begin, vectors.row(row));
    }
  }
  if (!adapter.factors) return;
  const LocalWeight& b = adapter.factors->b;
  const std::size_t rank = b.in_features();
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> inner = step.workspace.take(rows.size(), rank);
  for (std::size_t i = 0; i < rows.size() && !inner.empty(); ++i) {
    const std::size_t id = id_of(rows[i]);
    if (tokens_.contains(id))
      std::copy_n(adapter.factors->a.data() + (id - tokens_.begin) * rank, rank, inner.row(i));
    else
      std::fill_n(inner.row(i), rank, 0.0F);
  }
  const TensorView<float> more = b.multiply(inner, step.workspace);
  for (std::size_t i = 0; i < rows.size() && !more.empty(); ++i) {
    for (std::size_t j = 0; j < more.columns(); ++j) vectors(rows[i], j) += more(i, j);
  }
}

HeadAdapters::HeadAdapters(WeightLoader& loader, const VocabLayer& layer) {
  for_adapters(loader, [&](std::size_t index, const Adapter& adapter) {
    if (const AdapterMatrix* const own = own_table(loader, adapter, layer))
      saved_.push_back({index, load_saved_rows(loader, *own, layer.tokens)});
  });
  const StoredLayer stored{layer.name, layer.shape, "vocab_size", "hidden_size"};
  factors_ = LayerAdapters(loader, std::vector<OwnedRows>{{stored, layer.tokens}});
}

void HeadAdapters::apply(TensorView<const float> hidden, const StepContext& step,
                         TensorView<float> logits) const {
  for_adapted_rows(saved_, step, hidden.rows(), !logits.empty(),
                   [&](const Saved& own, std::span<const std::size_t> rows) {
                     const Workspace::Frame frame(step.workspace);
                     const TensorView<float> gathered = step.workspace.take(rows.size(), hidden.columns());
                     kernels::gather_rows(hidden, rows, gathered);
                     kernels::scatter_rows(own.weight.multiply(gathered, step.workspace), rows, logits);
                   });
  factors_.add_to(hidden, step, logits);
}

}  // namespace tp
