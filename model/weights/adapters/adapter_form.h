// Whether adapters and the model are stored in the same form.
#pragma once

#include "model/config/family.h"
#include "tp/engine_options.h"

#include <filesystem>
#include <span>

namespace tp {

// GGUF files of some families have factors of the model in their weights (GgufFamily::fold_factors), and
// adapters in GGUF have them, too. Throws ConfigError if such a model is a GGUF file and an adapter is not,
// or the other way round.
void require_form_of_model(std::span<const AdapterOptions> adapters, const std::filesystem::path& model,
                           const GgufFamily& family);

}  // namespace tp
