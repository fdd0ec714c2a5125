#include "model/quantize/gguf_input.h"

#include "model/files/printable.h"
#include "model/weights/gguf/gguf_factor.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace tp {
namespace {

// Whether a key describes the file rather than the model.
bool is_of_file(std::string_view key) {
  return key.starts_with("split.") || key == "general.alignment" || key.starts_with("quantize.imatrix.");
}

bool loses_bits(const QuantizeInput::Tensor& tensor) {
  return TypeChoice::is_matrix(tensor.name, tensor.shape) && !plain_type(*tensor.stored) &&
         !is_integer(*tensor.stored);
}

// The expert to which a row of a stack belongs.
std::optional<std::size_t> expert_of(const GgufTensor& tensor, std::size_t row) {
  if (tensor.shape.size() < 3) return std::nullopt;
  return row / tensor.shape[tensor.shape.size() - 2];
}

// Whether the tensor's factors are multiplied with matrices, because these get another type.
bool is_multiplied(const GgufFiles& files, const GgufTensor& tensor) {
  const GgufTensor* const matrix = matrix_of_factors(files, tensor);
  return matrix != nullptr && TypeChoice::is_matrix(matrix->name, matrix->shape);
}

}  // namespace

GgufInput::GgufInput(const std::filesystem::path& first) : files_(first) {
  for (const auto& [key, value] : files_.metadata().values()) {
    if (!is_of_file(key)) values_.copy(key, value);
  }
  const ModelMetadata model(files_);
  facts_ = {.architecture = model.architecture(),
            .layers = model.whole_or("block_count", 0),
            .experts = model.whole_or("expert_count", 0),
            .has_lm_head = model.has_tensor("output.weight"),
            .has_grouped_queries = model.has("attention.head_count") && model.kv_heads() < model.heads()};
  for (const auto& [name, entry] : files_.tensors()) {
    if (!is_multiplied(files_, entry.tensor)) entries_.push_back(&entry);
  }
  // Tensors stay in the files' order, which is layer by layer.
  std::ranges::stable_sort(entries_, {}, [](const GgufFiles::Entry* entry) {
    return std::pair(entry->file.name(), entry->tensor.bytes.begin);
  });
  for (const GgufFiles::Entry* const entry : entries_)
    tensors_.push_back({entry->tensor.name, entry->tensor.shape, entry->tensor.type});
}

std::vector<std::string> GgufInput::notices() const {
  const auto found = std::ranges::find_if(tensors_, loses_bits);
  if (found == tensors_.end()) return {};
  return {fmt::format("{} is already quantized ({} is {}); the original model gives a better file",
                      files_.name(), printable(found->name), found->stored->name)};
}

void GgufInput::read(std::size_t tensor, Range rows, float* out) const {
  const GgufTensor& stored = entries_[tensor]->tensor;
  if (!stored.type.readable) {
    throw_error<CheckpointError>(
        "{}: {} has the type {}, expected one that can be read; quantize the original model",
        entries_[tensor]->file.name(), printable(stored.name), stored.type.name);
  }
  const std::byte* const first = entries_[tensor]->file.bytes().data() + stored.bytes.begin;
  const std::size_t columns = stored.shape.back();
  for (std::size_t row = rows.begin; row < rows.end; ++row, out += columns)
    dequantize(stored.type, first + row * stored.row_bytes(), {0, columns},
               factor_of(files_, stored, expert_of(stored, row)), out);
}

std::span<const std::byte> GgufInput::stored_bytes(std::size_t tensor) const {
  const Range bytes = entries_[tensor]->tensor.bytes;
  return entries_[tensor]->file.bytes().subspan(bytes.begin, bytes.size());
}

void GgufInput::done_with(std::size_t tensor) const {
  entries_[tensor]->file.advise_done(entries_[tensor]->tensor.bytes);
}

}  // namespace tp
