// Finds the supported family most similar to an unsupported model, for error texts.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tp {

struct NearestFamily {
  std::string architecture;  // empty: no family is similar
  // Layers or tensors of the model's blocks that the family lacks: "self_attn.sinks".
  std::vector<std::string> unknown;
};

// Finds the decoder family with a similar name, or else the family that has names for most of `tensors`.
// `tensors` may be empty.
NearestFamily nearest_family(const std::string& architecture, std::span<const std::string> tensors);

// "; it is like Qwen3ForCausalLM, but has self_attn.sinks", according to the folder's safetensors files.
// Empty if no family is similar.
std::string likeness(const std::string& architecture, const std::filesystem::path& folder);

}  // namespace tp
