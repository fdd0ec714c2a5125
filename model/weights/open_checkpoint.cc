#include "model/weights/open_checkpoint.h"

#include "model/weights/gguf_checkpoint.h"
#include "model/weights/quantized/group_checkpoint.h"

namespace tp {

std::unique_ptr<WeightSource> open_checkpoint(const std::filesystem::path& model) {
  if (const std::optional<std::filesystem::path> gguf = find_gguf(model)) return GgufCheckpoint::open(*gguf);
  std::unique_ptr<SafetensorsCheckpoint> plain = SafetensorsCheckpoint::open(model);
  const std::optional<GroupQuantization> quantization = find_group_quantization(model);
  if (!quantization && !GroupCheckpoint::has_fp8(*plain)) return plain;
  return std::make_unique<GroupCheckpoint>(std::move(plain), quantization.value_or(GroupQuantization{}));
}

}  // namespace tp
