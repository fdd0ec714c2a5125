#include "model/config/nearest_family.h"

#include "model/config/architectures.h"
#include "model/files/similar_name.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tp/error.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/ranges.h>

namespace tp {
namespace {

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
}

// Extracts "mlp.experts.#.up_proj" from "model.layers.3.mlp.experts.17.up_proj.weight". Nothing for tensors
// outside blocks.
std::optional<std::string> layer_of(std::string_view tensor) {
  std::string layer;
  bool is_inside = false;
  while (!tensor.empty()) {
    const std::size_t dot = std::min(tensor.find('.'), tensor.size());
    const std::string_view word = tensor.substr(0, dot);
    tensor.remove_prefix(std::min(dot + 1, tensor.size()));
    if (is_inside && !(tensor.empty() && (word == "weight" || word == "bias")))
      layer.append(layer.empty() ? "" : ".").append(is_number(word) ? "#" : word);
    is_inside = is_inside || is_number(word);
  }
  return layer.empty() ? std::nullopt : std::optional(layer);
}

std::set<std::string> layers_of(std::span<const std::string> tensors) {
  std::set<std::string> layers;
  for (const std::string& tensor : tensors) {
    // Skips multi-token prediction layers and blocks of a vision tower.
    const auto is_of = [&](const char* part) { return tensor.find(part) != tensor.npos; };
    const bool is_beside = tensor.starts_with("mtp.") || is_of("vision") || is_of("visual");
    if (const std::optional<std::string> layer = layer_of(tensor); layer && !is_beside) layers.insert(*layer);
  }
  return layers;
}

std::vector<std::string> unknown_to(const Family& family, const std::set<std::string>& layers) {
  std::set<std::string> known;
  for (const std::string& name : family.names.names_of_block("0.").layers()) {
    if (const std::optional<std::string> layer = layer_of(name)) known.insert(*layer);
  }
  std::vector<std::string> unknown;
  std::ranges::set_difference(layers, known, std::back_inserter(unknown));
  return unknown;
}

// The names of the tensors in a folder; empty if they cannot be read.
std::vector<std::string> tensors_in(const std::filesystem::path& folder) {
  try {
    return folder.empty() ? std::vector<std::string>() : SafetensorsCheckpoint::open(folder)->names();
  } catch (const Error&) {
    return {};
  }
}

bool is_decoder(const std::string& architecture) {
  return family_of(architecture).kind == ModelKind::decoder;
}

}  // namespace

NearestFamily nearest_family(const std::string& architecture, std::span<const std::string> tensors) {
  std::vector<std::string> decoders = supported_architectures();
  std::erase_if(decoders, [](const std::string& name) { return !is_decoder(name); });
  const std::set<std::string> layers = layers_of(tensors);
  if (const std::string similar = similar_name(architecture, decoders); !similar.empty())
    return {similar, unknown_to(family_of(similar), layers)};
  NearestFamily nearest{.architecture = {}, .unknown = {layers.begin(), layers.end()}};
  // Llama comes first, and therefore wins ties: most families resemble it.
  decoders.insert(decoders.begin(), "LlamaForCausalLM");
  for (const std::string& name : decoders) {
    std::vector<std::string> unknown = unknown_to(family_of(name), layers);
    if (unknown.size() < nearest.unknown.size()) nearest = {name, std::move(unknown)};
  }
  if (2 * nearest.unknown.size() > layers.size()) return {};
  return nearest;
}

std::string likeness(const std::string& architecture, const std::filesystem::path& folder) {
  const NearestFamily nearest = nearest_family(architecture, tensors_in(folder));
  if (nearest.architecture.empty()) return {};
  constexpr std::size_t kFew = 4;
  const std::span shown = std::span(nearest.unknown).first(std::min(kFew, nearest.unknown.size()));
  const char* const more = nearest.unknown.size() > kFew ? ", ..." : "";
  const std::string has = shown.empty() ? "" : fmt::format(", but has {}{}", fmt::join(shown, ", "), more);
  return fmt::format("; it is like {}{}", nearest.architecture, has);
}

}  // namespace tp
