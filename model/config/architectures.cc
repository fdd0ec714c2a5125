#include "model/config/architectures.h"

#include "tp/internal/require.h"

#include <map>

#include <fmt/ranges.h>

namespace tp {
namespace {

const std::map<std::string, Family>& table() {
  static const std::map<std::string, Family> families = {
      {"DeepseekV2ForCausalLM", families::deepseek2()},
      {"DeepseekV3ForCausalLM", families::deepseek3()},
      {"FalconForCausalLM", families::falcon()},
      {"GPT2LMHeadModel", families::gpt2()},
      {"GPTNeoXForCausalLM", families::gpt_neox()},
      {"Gemma2ForCausalLM", families::gemma2()},
      {"GemmaForCausalLM", families::gemma()},
      {"LlamaForCausalLM", families::llama()},
      {"MistralForCausalLM", families::mistral()},
      {"MixtralForCausalLM", families::mixtral()},
      {"Phi3ForCausalLM", families::phi3()},
      {"Qwen2MoeForCausalLM", families::qwen2_moe()},
      {"Qwen3MoeForCausalLM", families::qwen3_moe()},
      {"Qwen2ForCausalLM", families::qwen2()},
      {"Qwen3ForCausalLM", families::qwen3()},
  };
  return families;
}

}  // namespace

DecoderSpec make_spec(const ModelConfig& config) { return family_of(config.architecture).make_spec(config); }

const Family& family_of(const std::string& architecture) {
  const auto found = table().find(architecture);
  require<ConfigError>(found != table().end(), "models of the family {} are not supported; supported are {}",
                       architecture, fmt::join(supported_architectures(), ", "));
  return found->second;
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const auto& [name, family] : table()) names.push_back(name);
  return names;
}

}  // namespace tp
