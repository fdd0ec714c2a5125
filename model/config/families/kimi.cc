// Kimi K2 and the language model of Kimi K2.5: DeepSeek-V3.
#include "model/config/families/common.h"

namespace tp::families {

Family kimi() {
  Family family = derived(deepseek3(), "KimiK25ForConditionalGeneration");
  family.aliases = {"KimiK2ForCausalLM"};
  family.names.part_prefix = "language_model.";
  family.gguf.is_of = [](const ModelMetadata&) { return false; };  // files are read as DeepSeek-V3
  return family;
}

}  // namespace tp::families
