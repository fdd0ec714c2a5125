#include "model/quantize/checkpoint_input.h"

#include "model/chat/chat_template.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/config/generation_config.h"
#include "model/files/printable.h"
#include "model/quantize/describing_vectors.h"
#include "model/quantize/header_check.h"
#include "model/quantize/model_tensors.h"
#include "model/tokenizer/embed_vocabulary.h"
#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/tokenizer_files.h"
#include "model/weights/adapters/adapter_form.h"
#include "model/weights/adapters/merged_checkpoint.h"
#include "model/weights/open_checkpoint.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

// Tokens that end a text, a turn or a message. llama.cpp stops at all of them.
constexpr std::array kEndKeys = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                 "tokenizer.ggml.eom_token_id"};

// GGUF names of tensors that are split into several tensors.
constexpr std::string_view kSplitKvB = "attn_kv_b.weight";
constexpr std::string_view kGateUp = "ffn_gate_up_exps.weight";

// The checkpoint's row (or column) for each row (or column) of the file; empty if the order is the same.
std::vector<std::size_t> in_file_order(const GgufOrder& order, std::size_t places) {
  if (order.keeps_places()) return {};
  std::vector<std::size_t> result(places);
  for (std::size_t place = 0; place < places; ++place) result[order.stored(place)] = place;
  return result;
}

// Changes a row's elements from the order of the checkpoint to the order of the file.
void reorder(std::span<const std::size_t> places, float* row) {
  const std::vector<float> as_stored(row, row + places.size());
  for (std::size_t i = 0; i < places.size(); ++i) row[i] = as_stored[places[i]];
}

}  // namespace

CheckpointInput::CheckpointInput(const std::filesystem::path& folder, const std::string& name,
                                 std::span<const AdapterOptions> adapters)
    : name_(name) {
  CheckpointConfig config = load_config(folder);
  if (const auto fold = family_of(config.architecture).gguf.fold_factors) factors_ = fold(config);
  spec_ = make_spec(config);
  values_.text("general.type", "model");
  values_.text("general.name", name);
  write_hyperparameters(config, spec_, name, values_);
  source_ = open_checkpoint(folder);
  const GgufFamily& family = family_of(config.architecture).gguf;
  const std::string& architecture = family.architecture_of(config);
  require_form_of_model(adapters, folder, family);
  if (!adapters.empty())
    source_ = std::make_unique<MergedCheckpoint>(std::move(source_), Adapters(adapters, spec_, architecture),
                                                 spec_);
  const GgufHeads heads = heads_of(spec_);
  const GgufNames names(spec_.names.as_stored_in(*source_), heads);
  facts_ = {.architecture = architecture,
            .layers = spec_.blocks.size(),
            .experts = config.num_experts,
            .has_lm_head = !spec_.tied_embeddings,
            .has_grouped_queries = heads.kv_heads < heads.heads};
  Lists lists;
  for (ModelTensor& tensor : model_tensors(spec_, *source_))
    add_tensor(names, std::move(tensor.name), tensor.shape, lists);
  for (const auto& [key, list] : lists) values_.numbers(key, list);
  for (const auto& [copy, tensor] : family_of(config.architecture).gguf.copies) add_copy(copy, tensor);
  add_describing_vectors();
  write_vocabulary(folder);
}

void CheckpointInput::add_tensor(const GgufNames& names, std::string name, MatrixShape shape, Lists& lists) {
  if (const std::optional<GgufPlace> stack = names.find_transposed_stack(name))
    return add_experts(*stack, {std::move(name), shape}, true);
  if (const std::optional<GgufNames::SeparateQkv> separate = names.find_separate_qkv(name))
    return add_separate_qkv(*separate, {std::move(name), shape});
  std::optional<GgufPlace> place = names.find_table_part(name);
  if (!place) place = names.find(name);
  require<ConfigError>(
      place.has_value(),
      "cannot write {} as a GGUF file: expected tensors that GGUF supports, found {}; use the "
      "checkpoint without converting it",
      name_, name);
  if (!place->list.empty()) {
    std::vector<float>& list = lists[place->list];
    source_->read(name, shape, TensorSlice::whole(shape), {&list.emplace_back(), 1, 1});
    return;
  }
  if (place->is_stack) return add_experts(*place, {std::move(name), shape}, false);
  if (!place->shares.empty()) return add_shares(*place, {std::move(name), shape});
  if (place->tensor.ends_with(kSplitKvB) && !spec_.names.gguf.whole_kv_b)
    return add_split_kv_b(place->tensor, {std::move(name), shape});
  // A tied embedding may be stored only as the LM head.
  if (spec_.tied_embeddings && place->tensor == "output.weight") place->tensor = "token_embd.weight";
  const bool is_vector = shape.rows == 1;
  const MatrixShape in_file = place->is_transposed ? MatrixShape{shape.columns, shape.rows} : shape;
  const auto known = std::ranges::find(tensors_, place->tensor, &Tensor::name);
  if (known != tensors_.end()) {  // a further expert, or a further shard of a table
    origins_[static_cast<std::size_t>(known - tensors_.begin())].parts.push_back(
        {std::move(name), shape, {0, shape.rows}});
    known->shape.front() += place->expert ? 1 : shape.rows;
    return;
  }
  Tensor tensor{.name = place->tensor};
  if (place->expert) tensor.shape.push_back(1);
  if (!is_vector) tensor.shape.push_back(in_file.rows);
  tensor.shape.push_back(in_file.columns);
  if (place->vector_row != 0) tensor.shape = {shape.columns / place->vector_row, place->vector_row};
  if (place->matrix_row != 0) tensor.shape = {shape.size()};
  if (place->extents_of_1 != 0) {
    tensor.shape = {shape.rows, shape.columns};
    tensor.shape.insert(tensor.shape.begin() + 1, place->extents_of_1, 1);
  }
  tensors_.push_back(std::move(tensor));
  origins_.push_back({.parts = {{std::move(name), shape, {0, shape.rows}}},
                      .place = *place,
                      .rows = in_file_order(place->rows, is_vector ? shape.columns : in_file.rows),
                      .columns = in_file_order(place->columns, in_file.columns)});
}

void CheckpointInput::add_copy(const std::string& copy, const std::string& tensor) {
  const auto found = std::ranges::find(tensors_, tensor, &Tensor::name);
  if (found == tensors_.end()) return;
  Tensor other = *found;
  other.name = copy;
  origins_.push_back(origins_[static_cast<std::size_t>(found - tensors_.begin())]);
  tensors_.push_back(std::move(other));
}

void CheckpointInput::add_stack(const std::string& tensor, const ModelTensor& whole, Range rows,
                                std::size_t period, bool is_transposed) {
  Origin origin{.place = {.tensor = tensor, .is_transposed = is_transposed}};
  for (std::size_t first = 0; first < whole.shape.rows; first += period)
    origin.parts.push_back({whole.name, whole.shape, {first + rows.begin, first + rows.end}});
  std::vector<std::size_t> shape = {origin.parts.size(), rows.size(), whole.shape.columns};
  if (is_transposed) std::swap(shape[1], shape[2]);
  tensors_.push_back({.name = tensor, .shape = std::move(shape)});
  origins_.push_back(std::move(origin));
}

// Splits a matrix, or a convolution, into the tensors that share its rows.
void CheckpointInput::add_shares(const GgufPlace& place, const ModelTensor& whole) {
  std::size_t parts = 0;
  for (const GgufShare& share : place.shares) parts += share.parts;
  std::size_t first = 0;
  for (const GgufShare& share : place.shares) {
    const std::size_t rows = whole.shape.rows / parts * share.parts;
    std::vector<std::size_t> shape = {rows, whole.shape.columns};
    shape.insert(shape.begin() + 1, place.extents_of_1, 1);
    tensors_.push_back({.name = share.tensor, .shape = std::move(shape)});
    origins_.push_back(
        {.parts = {{whole.name, whole.shape, {first, first + rows}}}, .place = {.tensor = share.tensor}});
    first += rows;
  }
}

// Splits a projection of queries, keys and values into three, which also have the file's order of rows.
void CheckpointInput::add_separate_qkv(const GgufNames::SeparateQkv& separate, const ModelTensor& whole) {
  const bool is_vector = whole.shape.rows == 1;
  std::vector<std::size_t> all =
      in_file_order(separate.order, is_vector ? whole.shape.columns : whole.shape.rows);
  if (all.empty()) {
    all.resize(is_vector ? whole.shape.columns : whole.shape.rows);
    std::iota(all.begin(), all.end(), std::size_t{0});
  }
  std::size_t first = 0;
  for (std::size_t part = 0; part < separate.parts.size(); ++part) {
    const GgufPlace& place = separate.parts[part];
    std::vector<std::size_t> rows(separate.rows[part]);
    for (std::size_t row = 0; row < rows.size(); ++row) rows[place.rows.stored(row)] = all.at(first + row);
    first += rows.size();
    Tensor tensor{.name = place.tensor, .shape = {rows.size()}};
    if (!is_vector) tensor.shape.push_back(whole.shape.columns);
    tensors_.push_back(std::move(tensor));
    origins_.push_back({.parts = {{whole.name, whole.shape, {0, whole.shape.rows}}},
                        .place = {.tensor = place.tensor},
                        .rows = std::move(rows)});
  }
}

void CheckpointInput::add_transposed_stack(const std::string& tensor, const ModelTensor& whole,
                                           Range columns) {
  const std::size_t period = whole.shape.rows / facts_.experts;
  Origin origin{.place = {.tensor = tensor, .is_transposed = true}};
  for (std::size_t first = 0; first < whole.shape.rows; first += period)
    origin.parts.push_back({whole.name, whole.shape, {first, first + period}, columns.begin});
  tensors_.push_back({.name = tensor, .shape = {facts_.experts, columns.size(), period}});
  origins_.push_back(std::move(origin));
}

// Splits gate_up_proj into two stacks: most readers support only separate gate and up matrices.
void CheckpointInput::add_experts(const GgufPlace& place, const ModelTensor& stack, bool is_transposed) {
  const std::size_t period = stack.shape.rows / facts_.experts;
  const std::size_t both = place.tensor.find(kGateUp);
  const std::string block = place.tensor.substr(0, both);
  if (is_transposed) {
    const std::size_t columns = stack.shape.columns;
    if (both == place.tensor.npos) return add_transposed_stack(place.tensor, stack, {0, columns});
    add_transposed_stack(block + "ffn_gate_exps.weight", stack, {0, columns / 2});
    return add_transposed_stack(block + "ffn_up_exps.weight", stack, {columns / 2, columns});
  }
  if (both == place.tensor.npos) return add_stack(place.tensor, stack, {0, period}, period);
  add_stack(block + "ffn_gate_exps.weight", stack, {0, period / 2}, period);
  add_stack(block + "ffn_up_exps.weight", stack, {period / 2, period}, period);
}

// Writes two stacks like those that GgufSplitKvB reads: each head's key rows, transposed, and its value rows.
void CheckpointInput::add_split_kv_b(const std::string& tensor, const ModelTensor& whole) {
  const LatentAttentionSpec& spec = *first_part<LatentAttentionSpec>(spec_);
  const std::size_t keys = spec.qk_nope_head_dim;
  const std::size_t period = keys + spec.v_head_dim;
  const std::string block = tensor.substr(0, tensor.size() - kSplitKvB.size());
  add_stack(block + "attn_k_b.weight", whole, {0, keys}, period, true);
  add_stack(block + "attn_v_b.weight", whole, {keys, period}, period);
}

void CheckpointInput::add_describing_vectors() {
  for (DescribingVector& vector : describing_vectors(spec_)) {
    tensors_.push_back({.name = vector.name, .shape = {vector.values.size()}});
    origins_.push_back({.values = std::move(vector.values)});
  }
}

void CheckpointInput::write_vocabulary(const std::filesystem::path& folder) {
  if (!holds_tokenizer(folder)) {
    values_.text("tokenizer.ggml.model", "no_vocab");
    notices_.push_back(
        fmt::format("{} has no tokenizer, and neither will the file: it takes token ids", name_));
    return;
  }
  auto [vocabulary, differs_at_start, differs_after] =
      embed_vocabulary(load_tokenizer_parts(folder), spec_.vocab_size, name_);
  if (differs_after)
    notices_.push_back(
        fmt::format("texts after an added token, such as '{}', get another first token from the file's "
                    "tokenizer than from that of {}",
                    printable(*differs_after), name_));
  if (differs_at_start)
    notices_.push_back(
        fmt::format("texts that begin with a space get another first token from the file's tokenizer than "
                    "from that of {}",
                    name_));
  const ChatTemplate::PlainSources chat = ChatTemplate::sources_in(folder);
  vocabulary.chat_template = chat.usual;
  vocabulary.tool_template = chat.with_tools;
  std::vector<TokenId> ends = load_generation_config(folder).eos_token_ids;
  if (ends.empty()) ends = load_config(folder).eos_token_ids;
  // The tokenizer's end token comes first.
  if (ends.empty() && vocabulary.eos) ends = {*vocabulary.eos};
  if (const auto eos = std::ranges::find(ends, vocabulary.eos.value_or(-1)); eos != ends.end())
    std::rotate(ends.begin(), eos, eos + 1);
  if (!ends.empty()) vocabulary.eos = ends.front();
  tp::write_vocabulary(vocabulary, values_);
  for (std::size_t i = 1; i < std::min(ends.size(), kEndKeys.size()); ++i)
    values_.whole(kEndKeys[i], static_cast<std::uint32_t>(ends[i]));
  if (ends.size() > kEndKeys.size())
    notices_.push_back(fmt::format("{} has {} end-of-sequence tokens, of which the file names {}", name_,
                                   ends.size(), kEndKeys.size()));
}

void CheckpointInput::read(std::size_t tensor, Range rows, float* out) const {
  const Origin& origin = origins_[tensor];
  if (origin.parts.empty()) {
    std::ranges::copy(origin.values, out);
    return;
  }
  const std::size_t columns = tensors_[tensor].columns();
  const std::vector<std::size_t>& shape = tensors_[tensor].shape;
  const std::size_t all_rows =
      std::accumulate(shape.begin(), shape.end() - 1, std::size_t{1}, std::multiplies<>());
  const std::size_t rows_of_part = all_rows / origin.parts.size();
  for (std::size_t row = rows.begin; row < rows.end;) {
    const std::size_t part = row / rows_of_part;
    const std::size_t first = row % rows_of_part;
    const std::size_t count = std::min(rows_of_part - first, rows.end - row);
    read_part(origin, origin.parts[part], {first, first + count}, out);
    for (std::size_t i = 0; i < count && !origin.columns.empty(); ++i)
      reorder(origin.columns, out + i * columns);
    for (std::size_t i = 0; i < count * columns; ++i) out[i] = origin.place.stored(out[i]);
    fold_factors(tensors_[tensor].name, {row, row + count}, columns, out);
    out += count * columns;
    row += count;
  }
}

void CheckpointInput::fold_factors(const std::string& tensor, Range rows, std::size_t columns,
                                   float* out) const {
  for (const GgufFactor& some : factors_) {
    if (tensor != some.tensor && !(tensor.starts_with("blk.") && tensor.ends_with("." + some.tensor)))
      continue;
    for (std::size_t row = rows.begin; row < rows.end; ++row) {
      if (some.rows != 0 && (row < some.first_row || row >= some.first_row + some.rows)) continue;
      float* const elements = out + (row - rows.begin) * columns;
      for (std::size_t i = 0; i < columns; ++i) elements[i] *= static_cast<float>(some.factor);
    }
  }
}

void CheckpointInput::read_part(const Origin& origin, const Stored& part, Range rows, float* out) const {
  const std::size_t columns = part.shape.columns;
  if (part.shape.rows == 1 && origin.place.vector_row != 0) {
    const std::size_t row = origin.place.vector_row;
    const Range elements{rows.begin * row, rows.end * row};
    source_->read(part.name, part.shape, TensorSlice::of_columns(part.shape, elements),
                  {out, 1, elements.size()});
  } else if (origin.place.matrix_row != 0) {
    source_->read(part.name, part.shape, TensorSlice::whole(part.shape), {out, part.shape.rows, columns});
  } else if (part.shape.rows == 1) {
    if (origin.rows.empty()) {
      source_->read(part.name, part.shape, TensorSlice::whole(part.shape), {out, 1, columns});
    } else {
      std::vector<float> whole(columns);  // a bias, of which `out` may get some rows only
      source_->read(part.name, part.shape, TensorSlice::whole(part.shape), {whole.data(), 1, columns});
      for (std::size_t i = 0; i < origin.rows.size(); ++i) out[i] = whole[origin.rows[i]];
    }
  } else if (origin.place.is_transposed) {
    std::vector<float> memory(part.rows.size() * rows.size());
    const TensorView<float> stored(memory.data(), part.rows.size(), rows.size());
    const Range columns_of_part{part.first_column + rows.begin, part.first_column + rows.end};
    source_->read(part.name, part.shape, {part.rows, columns_of_part}, stored);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t i = 0; i < part.rows.size(); ++i) *out++ = stored(i, row);
    }
  } else if (origin.rows.empty()) {
    const Range wanted{part.rows.begin + rows.begin, part.rows.begin + rows.end};
    source_->read(part.name, part.shape, TensorSlice::of_rows(part.shape, wanted),
                  {out, rows.size(), columns});
  } else {
    for (std::size_t row = rows.begin; row < rows.end; ++row, out += columns) {
      const std::size_t stored = origin.rows[row];
      source_->read(part.name, part.shape, TensorSlice::of_rows(part.shape, {stored, stored + 1}),
                    {out, 1, columns});
    }
  }
}

void CheckpointInput::done_with(std::size_t tensor) const {
  for (const Stored& part : origins_[tensor].parts) source_->done_with(part.name);
}

void CheckpointInput::check_header(const std::filesystem::path& file) const {
  if (tp::check_header(spec_, name_, file).misses_windows) {
    notices_.push_back(fmt::format(
        "GGUF files of this architecture have no sliding window: texts longer than that of {} will differ",
        name_));
  }
}

}  // namespace tp
