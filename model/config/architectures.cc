#include "model/config/architectures.h"

#include "model/weights/checkpoint/gguf_model_metadata.h"
#include "model/weights/checkpoint/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

namespace tp {
namespace {

const std::vector<Family>& all_families() {
  static const std::vector<Family> families = {
      families::apertus(),     families::arcee(),     families::bloom(),       families::cohere(),
      families::cohere2(),     families::deepseek2(), families::deepseek3(),   families::dots1(),
      families::ernie(),       families::ernie_moe(), families::exaone4(),     families::falcon(),
      families::gemma(),       families::gemma2(),    families::gemma3(),      families::gemma3_multimodal(),
      families::glm(),         families::glm4(),      families::glm4_moe(),    families::gpt2(),
      families::gpt_bigcode(), families::gpt_neo(),   families::gpt_neox(),    families::gpt_oss(),
      families::gptj(),        families::granite(),   families::granite_moe(), families::helium(),
      families::hunyuan(),     families::llama(),     families::llama4(),      families::ministral(),
      families::mistral(),     families::mixtral(),   families::mpt(),         families::nemotron(),
      families::olmo(),        families::olmo2(),     families::olmo3(),       families::olmoe(),
      families::opt(),         families::phi(),       families::phi3(),        families::phimoe(),
      families::qwen2(),       families::qwen2_moe(), families::qwen3(),       families::qwen3_moe(),
      families::seed_oss(),    families::smollm3(),   families::stablelm(),    families::starcoder2(),
  };
  return families;
}

std::set<std::string> gguf_architectures() {
  std::set<std::string> names;
  for (const Family& family : all_families()) names.insert(family.gguf.architecture);
  names.erase("");  // of families that are not read from GGUF files
  return names;
}

}  // namespace

DecoderSpec make_spec(const ModelConfig& config) { return family_of(config.architecture).make_spec(config); }

std::size_t leaf_heads(const DecoderSpec& spec) {
  std::size_t most = 0;
  for (const BlockSpec& block : spec.blocks) {
    const auto heads = [](const auto& attention) { return attention.num_attention_heads; };
    most = std::max(most, std::visit(heads, block.attention));
  }
  return spec.same_bits ? most : 0;
}

const Family& family_of(const std::string& architecture) {
  const auto found = std::ranges::find_if(all_families(), [&](const Family& family) {
    return family.architecture == architecture ||
           std::ranges::find(family.aliases, architecture) != family.aliases.end();
  });
  if (found == all_families().end()) {
    throw_error<ConfigError>("models of the family {} are not supported; supported are {}", architecture,
                             fmt::join(supported_architectures(), ", "));
  }
  return *found;
}

const Family& family_of(const ModelMetadata& model) {
  const auto found = std::ranges::find_if(all_families(), [&](const Family& family) {
    return !family.gguf.architecture.empty() && family.gguf.architecture == model.architecture() &&
           (family.gguf.is_of == nullptr || family.gguf.is_of(model));
  });
  if (found == all_families().end()) {
    throw_error<ConfigError>("{}: GGUF models of the architecture {} are not supported; supported are {}",
                             model.files().name(), printable(model.architecture()),
                             fmt::join(gguf_architectures(), ", "));
  }
  return *found;
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Family& family : all_families()) names.push_back(family.architecture);
  std::ranges::sort(names);
  return names;
}

}  // namespace tp
