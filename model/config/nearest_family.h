// The family that is most like a model whose own is not supported, for error texts.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tp {

struct NearestFamily {
  std::string architecture;  // empty: none is like it
  // Layers or tensors of the model's blocks that the family has no name for: "self_attn.sinks".
  std::vector<std::string> unknown;
};

// The decoders' family whose architecture has a similar name, else the one with names for most of the
// `tensors` of the model's blocks, which may be empty.
NearestFamily nearest_family(const std::string& architecture, std::span<const std::string> tensors);

// "; it is like Qwen3ForCausalLM, but has self_attn.sinks", by the safetensors files in the folder, if there
// are any; or nothing.
std::string likeness(const std::string& architecture, const std::filesystem::path& folder);

}  // namespace tp
