#include "model/layers/blocks/hash_table.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/recurrent_inputs.h"
#include "model/kernels/streams.h"
#include "parallel/exchange/collectives.h"
#include "tp/internal/require.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp {
namespace {

constexpr const char* kStreams = "the number of streams x hidden_size";
constexpr const char* kEmbedDim = "the number of heads x the size of a row";

std::vector<OwnedRows> projection_rows(const HashTableSpec& spec, std::size_t hidden_size,
                                       const HashTableNames& names) {
  const std::size_t keys = spec.streams * hidden_size;
  const std::size_t all = keys + hidden_size;
  if (!names.key_value_proj.empty())
    return {{{names.key_value_proj,
              {all, spec.embed_dim()},
              "(the number of streams + 1) x hidden_size",
              kEmbedDim},
             {0, all}}};
  return {{{names.key_proj, {keys, spec.embed_dim()}, kStreams, kEmbedDim}, {0, keys}},
          {{names.value_proj, {hidden_size, spec.embed_dim()}, "hidden_size", kEmbedDim}, {0, hidden_size}}};
}

// The gains are those of the layer `name`, or the tensor `gain`.
HeadNorm load_norm(WeightLoader& loader, const HashTableSpec& spec, std::size_t hidden_size,
                   const std::string& name, const std::string& gain = {}) {
  if (!gain.empty())
    return {spec.norm, hidden_size,
            loader.rows_of_tensor({gain, {spec.streams, hidden_size}, "the number of streams", "hidden_size"},
                                  {0, spec.streams})};
  return {spec.norm, hidden_size,
          loader.whole_vector(tensor_names::weight_of(name), spec.streams * hidden_size, kStreams)};
}

// The tokens of a batch as rows of a state: id + 1, because a state begins with zeros.
TensorView<float> token_rows(const StepContext& step) {
  const TensorView<float> rows = step.workspace.take(step.batch.tokens.size(), 1);
  for (std::size_t row = 0; row < rows.rows() && !rows.empty(); ++row)
    *rows.row(row) = static_cast<float>(step.batch.tokens[row] + 1);
  return rows;
}

// Ids could not be folded without a tokenizer, so stored rows would be those of other tokens.
void require_token_map(const WeightLoader& loader, const NgramHash& hash, const std::string& table) {
  const bool is_missing = hash.folded_size != 0 && hash.folded.empty();
  require<CheckpointError>(
      !is_missing || !loader.reads() || loader.source().names().empty(),
      "cannot use the hash table {}: expected tokenizer.json beside config.json, because "
      "rows are chosen by tokens without case and accents, found none; copy this file "
      "of the checkpoint into the model's folder",
      loader.source().stored_name(tensor_names::weight_of(table)));
}

// The constants follow from the config, so a checkpoint with others would get wrong rows.
void require_constants(const WeightLoader& loader, const NgramHash& hash, const std::string& prefix) {
  if (!loader.reads() || prefix.empty()) return;
  const auto compare = [&](const std::string& tensor, const std::vector<std::uint64_t>& expected) {
    if (!loader.source().contains(tensor)) return;
    const std::vector<std::int64_t> found =
        loader.source().whole_numbers(tensor, {1, expected.size()}, "constants of hashes");
    if (found.empty()) return;
    const auto is_equal = [](std::int64_t a, std::uint64_t b) { return std::cmp_equal(a, b); };
    require<CheckpointError>(
        std::ranges::equal(found, expected, is_equal),
        "cannot use a hash table: expected {} with the constants {}, which follow from the config, "
        "found {}; use the original config.json",
        tensor, fmt::join(expected, ", "), fmt::join(found, ", "));
  };
  compare(prefix + "layer_multipliers", hash.multipliers);
  compare(prefix + "ngram_heads_vocab_sizes", hash.sizes);
}

}  // namespace

HashRows::HashRows(WeightLoader& loader, const HashTableSpec& spec, const HashTableNames& names) {
  std::string whole = names.shards.empty() ? names.table : "";  // the name of the only tensor
  for (const std::string& name : {names.table, names.only_table}) {
    if (!name.empty() && loader.source().contains(tensor_names::weight_of(name))) whole = name;
  }
  require_token_map(loader, spec.hash, names.table);
  require_constants(loader, spec.hash, names.constants);
  const std::size_t tensors = whole.empty() ? spec.shards : 1;
  rows_ = spec.rows / tensors;
  std::vector<StoredLayer> layers;
  for (std::size_t i = 0; i < tensors; ++i) {
    layers.push_back({!whole.empty() ? whole : fmt::format("{}{}", names.shards, i),
                      {rows_, spec.row_size},
                      "the sum of the heads' primes, rounded up and divided by the number of shards",
                      "the size of a row"});
  }
  const LoadedWeights before = loader.loaded();
  if (!spec.is_divided) mapped_ = loader.mapped_rows(layers);
  if (!are_mapped()) load(loader, layers);
  loaded_ = loader.loaded() - before;
}

void HashRows::load(WeightLoader& loader, std::span<const StoredLayer> layers) {
  own_ = shard_columns(rows_, loader.tp());
  std::vector<OwnedRows> stored;
  for (const StoredLayer& layer : layers) stored.push_back({layer, own_});
  weights_ = loader.rows_of_weights(stored, /*of_vocabulary=*/true);
}

void HashRows::will_need(std::size_t row) const {
  if (are_mapped()) mapped_[row / rows_].will_need(row % rows_);
}

bool HashRows::copy_row(std::size_t row, float* out) const {
  if (are_mapped()) {
    mapped_[row / rows_].read(row % rows_, out);
    return true;
  }
  if (!own_.contains(row % rows_)) return false;
  std::size_t own = row / rows_ * own_.size() + row % rows_ - own_.begin;
  auto weight = weights_.begin();
  while (own >= weight->out_features()) own -= weight++->out_features();
  weight->unpack_row(own, out);
  return true;
}

HashTable::HashTable(WeightLoader& loader, const HashTableSpec& spec, std::size_t hidden_size,
                     const HashTableNames& names)
    : spec_(spec),
      hidden_size_(hidden_size),
      rows_(loader, spec, names),
      proj_(loader, projection_rows(spec, hidden_size, names), false),
      key_norm_(load_norm(loader, spec, hidden_size, names.key_norm, names.key_gain)),
      query_norm_(load_norm(loader, spec, hidden_size, names.query_norm, names.query_gain)) {
  if (spec.conv_kernel == 0) return;
  const std::size_t channels = spec.streams * hidden_size;
  conv_norm_ = load_norm(loader, spec, hidden_size, names.conv_norm);
  conv_.emplace(loader,
                StoredLayer{names.conv, {channels, spec.conv_kernel}, kStreams, "ple_conv_kernel_size"},
                std::vector<Range>{{0, channels}}, false, spec.conv_dilation);
}

std::vector<StatePart::Rows> HashTable::state_rows() const {
  const std::size_t channels = spec_.streams * hidden_size_;
  std::vector<StatePart::Rows> rows{{.count = 1, .floats = spec_.hash.context()}};
  if (conv_)
    rows.push_back(
        {.begin = tokens_floats(), .count = conv_->state_rows(), .stride = channels, .floats = channels});
  return rows;
}

std::vector<std::uint64_t> HashTable::chosen_rows(std::span<const kernels::RecurrentRun> runs,
                                                  TensorView<const float> tokens) const {
  const NgramHash& hash = spec_.hash;
  std::vector<TokenId> window(hash.context() + 1);
  std::vector<std::uint64_t> rows(tokens.rows() * hash.heads());
  for (const kernels::RecurrentRun& run : runs) {
    for (std::size_t token = 0; token < run.tokens; ++token) {
      for (std::size_t back = 0; back < window.size(); ++back) {
        const float* const id = kernels::row_before(run, hash.context(), tokens, token, back);
        window[back] = id != nullptr ? static_cast<TokenId>(*id) - 1 : NgramHash::kNoToken;
      }
      const std::size_t first = (run.first_token + token) * hash.heads();
      hash.rows(window, std::span(rows).subspan(first, hash.heads()));
    }
  }
  return rows;
}

// A half-batch may find the tokens of an older step in the state, if the other half has not reached this
// layer yet. Its first few hints are useless then.
void HashTable::announce_rows(const StepContext& step) const {
  constexpr std::size_t kSystemCall = 1000;  // multiplications that take as long
  if (!rows_.are_mapped()) return;
  const Workspace::Frame frame(step.workspace);
  const RecurrentRuns runs(step);
  const std::vector<std::uint64_t> rows = chosen_rows(runs.all(), token_rows(step));
  const std::size_t ranks = step.comm->local_size();
  const std::size_t own = (rows.size() + ranks - 1 - step.comm->local_rank()) / ranks;
  for_thread_parts(own, own * kSystemCall, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) rows_.will_need(rows[i * ranks + step.comm->local_rank()]);
  });
}

TensorView<float> HashTable::look_up(const StepContext& step) const {
  const TensorView<float> found = step.workspace.take(step.batch.tokens.size(), spec_.embed_dim());
  const TensorView<float> tokens = token_rows(step);
  if (!found.empty()) {
    const RecurrentRuns runs(step);
    const std::vector<std::uint64_t> rows = chosen_rows(runs.all(), tokens);
    const std::size_t heads = spec_.hash.heads();
    for_thread_parts(rows.size(), found.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        float* const out = found.row(i / heads) + i % heads * spec_.row_size;
        if (!rows_.copy_row(rows[i], out)) std::fill_n(out, spec_.row_size, 0.0F);
      }
    });
    kernels::keep_last_rows(runs.all(), spec_.hash.context(), tokens);
  }
  if (rows_.are_mapped()) return found;
  PartialSum sum(found);
  if (!found.empty()) return all_reduce(*step.comm, std::move(sum));
  step.count_sum(sum);
  return found;
}

TensorView<float> HashTable::operator()(TensorView<const float> streams, const StepContext& step) const {
  const TensorView<float> out = step.workspace.take(streams.rows(), streams.columns());
  const Workspace::Frame frame(step.workspace);
  const std::size_t channels = streams.columns();
  const TensorView<float> projected = proj_(look_up(step), step);
  const TensorView<float> keys = projected.columns_from(0, channels);
  const TensorView<float> query = step.workspace.take(streams.rows(), channels);
  kernels::copy_rows(streams, query);
  key_norm_.apply_in_place(keys);
  query_norm_.apply_in_place(query);
  kernels::gate_by_agreement(keys, query, projected.columns_from(channels, hidden_size_), spec_.zero_has_sign,
                             out);
  if (conv_) add_convolution(out, query, step);
  return out;
}

void HashTable::add_convolution(TensorView<float> y, TensorView<float> scratch,
                                const StepContext& step) const {
  kernels::copy_rows(y, scratch);
  conv_norm_->apply_in_place(scratch);
  StepContext after_tokens = step;
  after_tokens.states = step.states.after(tokens_floats());
  const TensorView<float> mixed = (*conv_)(scratch, Activation::silu, after_tokens);
  if (!y.empty()) kernels::add(mixed, y);
}

}  // namespace tp
