#include "model/weights/adapters/adapter_form.h"

#include "model/files/printable.h"
#include "model/weights/gguf/gguf_files.h"
#include "tp/internal/require.h"

namespace tp {

void require_form_of_model(std::span<const AdapterOptions> adapters, const std::filesystem::path& model,
                           const GgufFamily& family) {
  if (family.fold_factors == nullptr) return;
  const bool is_gguf = find_gguf(model).has_value();
  for (const AdapterOptions& adapter : adapters) {
    require<ConfigError>(
        std::filesystem::is_directory(adapter.path) != is_gguf,
        "cannot use the adapter {} with {}: GGUF files of {} have factors of the model in their weights, so "
        "expected {}; give such an adapter, or merge it into the Hugging Face folder (tp-infer quantize "
        "--lora)",
        printable(adapter.name), printable(model.string()), family.architecture,
        is_gguf ? "an adapter in GGUF, found a folder" : "a folder in PEFT's layout, found a GGUF file");
  }
}

}  // namespace tp
