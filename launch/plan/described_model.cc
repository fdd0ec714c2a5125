#include "launch/plan/described_model.h"

#include "model/weights/gguf/gguf_files.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/quantized/quantization_config.h"
#include "model/weights/safetensors/safetensors_files.h"
#include "model/weights/unused_tensors.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace tp {
namespace {

// Returns null if config.json is alone, or files of the weights are missing. Throws CheckpointError for
// unreadable weights.
std::unique_ptr<WeightSource> find_weights(const std::filesystem::path& model,
                                           const CheckpointConfig& config) {
  if (!find_gguf(model) && !holds_all_safetensors(model)) return nullptr;
  return open_checkpoint(model, config);
}

void require_weights(const EngineOptions& options, bool exist) {
  require<CheckpointError>(
      options.adapters.empty() || exist,
      "cannot look at adapters: expected the weights of {}, found only its config; download "
      "them, or leave the adapters out",
      options.model.string());
}

// Quantized models without a type for the remaining tensors store them in bf16, like gpt-oss.
DType dtype_of_rest(const std::filesystem::path& model, DType configured) {
  const std::optional<QuantizationConfig> quantization = find_quantization_config(model);
  return quantization && !quantization->has_dtype ? DType::bf16 : configured;
}

}  // namespace

DescribedModel::DescribedModel(const EngineOptions& options, std::size_t ranks)
    : plan_(make_plan(options, ranks)),
      spec_(plan_.spec()),
      source_(find_weights(options.model, plan_.config)),
      configured_(source_ ? plan_.config.torch_dtype : dtype_of_rest(options.model, plan_.config.torch_dtype),
                  source_ ? std::vector<QuantizedLayers>() : find_quantized_layers(options.model)) {
  require_weights(options, source_ != nullptr);
  if (source_) source_ = with_adapters(plan_, std::move(source_));
  if (source_)
    stored_ = {source_->stored_bytes(), source_->types(),
               count_next_token_tensors(spec_.names.as_stored_in(*source_), *source_)};
  if (!options.kv_type) plan_.options.kv_type = default_kv_type(usual_type());
  share_caches(plan_, std::vector<std::uint64_t>(ranks, 0));
}

const WeightSource& DescribedModel::weights() const {
  // Drafters may lack tables, which they take from their targets.
  if (spec_.drafter) return configured_;
  const auto is_readable = [](const TypeUse& use) { return use.held_as.has_value(); };
  if (stored_ && !stored_->types.empty() && std::ranges::all_of(stored_->types, is_readable)) return *source_;
  return configured_;
}

std::string DescribedModel::described_type() const {
  const std::vector<TypeUse> types = configured_.types();
  return types.empty() ? std::string(name_of(plan_.config.torch_dtype)) : types.front().type;
}

}  // namespace tp
