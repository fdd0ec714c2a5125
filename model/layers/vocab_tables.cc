#include "model/layers/vocab_tables.h"

#include "model/weights/weight_loader.h"

#include <string>

namespace tp {

SameTables same_tables(const ModelSpec& layer, const WeightSource& source, TpRank tp) {
  const TensorNames model = layer.names.as_stored_in(source);
  const TensorNames own = model.of_next_token_layer(source);
  WeightLoader loader(source, tp, std::nullopt, {});
  const auto table = [&](const std::string& name) {
    return StoredLayer{name, {layer.vocab_size, layer.hidden_size}, "vocab_size", "hidden_size"};
  };
  const auto is_copy = [&](const std::string& name, const std::string& of) {
    const OwnedRows rows = {table(name), shard_columns(layer.vocab_size, tp)};
    return !loader.first_different_row(rows, table(of));
  };
  SameTables same = {own.embed_tokens == model.embed_tokens, own.lm_head == model.lm_head};
  // A layer with tied embeddings shares both tables or neither. The checkpoint may store only one of them, so
  // only names are compared.
  if (layer.tied_embeddings) return same.embedding && same.head ? same : SameTables{};
  if (!same.embedding) same.embedding = is_copy(own.embed_tokens, model.embed_tokens);
  if (!same.head) same.head = is_copy(own.lm_head, model.lm_head);
  return same;
}

}  // namespace tp
