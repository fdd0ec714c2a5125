#include "model/weights/adapters/adapter_form.h"

#include "model/files/printable.h"
#include "model/weights/gguf/gguf_files.h"
#include "tp/internal/require.h"

#include <system_error>

namespace tp {

void require_form_of_model(std::span<const AdapterOptions> adapters, const std::filesystem::path& model,
                           const GgufFamily& family) {
  if (family.fold_factors == nullptr) return;
  const bool is_gguf = find_gguf(model).has_value();
  for (const AdapterOptions& adapter : adapters) {
    std::error_code ignored;  // Adapters reports missing files
    const bool differs = is_gguf ? std::filesystem::is_directory(adapter.path, ignored)
                                 : std::filesystem::is_regular_file(adapter.path, ignored);
    require<ConfigError>(
        !differs,
        "cannot use the adapter {} with {}: GGUF files of {} have factors of the model in their weights, so "
        "expected {}",
        printable(adapter.name), printable(model.string()), family.architecture,
        is_gguf ? "an adapter in GGUF, found a folder; give such an adapter, or merge the folder into the "
                  "Hugging Face checkpoint (tp-infer quantize --lora)"
                : "a folder in PEFT's layout, found a GGUF file; give the folder that it was made from");
  }
}

}  // namespace tp
