#include "model/weights/open_checkpoint.h"

#include "model/weights/checkpoint/safetensors_checkpoint.h"
#include "model/weights/gguf_checkpoint.h"

namespace tp {

std::unique_ptr<WeightSource> open_checkpoint(const std::filesystem::path& model) {
  if (const std::optional<std::filesystem::path> gguf = find_gguf(model)) return GgufCheckpoint::open(*gguf);
  return SafetensorsCheckpoint::open(model);
}

}  // namespace tp
