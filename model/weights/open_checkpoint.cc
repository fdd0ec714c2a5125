#include "model/weights/open_checkpoint.h"

#include "model/config/architectures.h"
#include "model/weights/adapted_checkpoint.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/quantized/group_checkpoint.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tp {

std::unique_ptr<WeightSource> open_checkpoint(const std::filesystem::path& model) {
  if (const std::optional<std::filesystem::path> gguf = find_gguf(model)) return GgufCheckpoint::open(*gguf);
  std::unique_ptr<SafetensorsCheckpoint> plain = SafetensorsCheckpoint::open(model);
  const std::optional<GroupQuantization> quantization = find_group_quantization(model);
  if (!quantization && !GroupCheckpoint::has_fp8(*plain)) return plain;
  return std::make_unique<GroupCheckpoint>(std::move(plain), quantization.value_or(GroupQuantization{}));
}

std::unique_ptr<WeightSource> open_checkpoint(const std::filesystem::path& model,
                                              const CheckpointConfig& config) {
  std::unique_ptr<WeightSource> stored = open_checkpoint(model);
  const EncoderConfig& encoder = config.encoder;
  const std::vector<std::string>& tasks = encoder.lora_adaptations;
  if (tasks.empty()) return stored;
  const TensorNames& names = family_of(config.architecture).names;
  AdapterChoice choice{.adapters = tasks.size(),
                       .rank = encoder.lora_rank,
                       .alpha = encoder.lora_alpha,
                       .embeddings = {names.embed_tokens, names.token_types}};
  if (const auto task = std::ranges::find(tasks, encoder.lora_task); task != tasks.end())
    choice.index = static_cast<std::size_t>(task - tasks.begin());
  return std::make_unique<AdaptedCheckpoint>(std::move(stored), std::move(choice));
}

}  // namespace tp
