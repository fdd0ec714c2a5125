#include "model/weights/adapters/adapter.h"

#include "model/files/content_hash.h"
#include "model/files/printable.h"
#include "parallel/machine/hash.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

namespace tp {
namespace {

// Names of parts of Python classes that contain a whole language model.
constexpr std::array<std::string_view, 9> kClassPrefixes = {"model.",       "language_model.", "text_model.",
                                                            "transformer.", "backbone.",       "bert.",
                                                            "roberta.",     "gpt_neox.",       "distilbert."};

}  // namespace

std::string layer_key(std::string_view layer) {
  const auto prefix_of = [&] {
    return std::ranges::find_if(kClassPrefixes,
                                [&](std::string_view prefix) { return layer.starts_with(prefix); });
  };
  for (const auto* prefix = prefix_of(); prefix != kClassPrefixes.end(); prefix = prefix_of())
    layer.remove_prefix(prefix->size());
  return std::string(layer);
}

const AdapterLayer* Adapter::find(std::string_view layer) const {
  const auto found = layers.find(layer_key(layer));
  return found == layers.end() ? nullptr : &found->second;
}

const AdapterMatrix* Adapter::find_tensor(std::string_view tensor) const {
  const auto found = tensors.find(layer_key(tensor));
  return found == tensors.end() ? nullptr : &found->second;
}

void check_factors(const Adapter& adapter) {
  for (const auto& [layer, parts] : adapter.layers) {
    const AdapterMatrix& a = parts.a;
    const AdapterMatrix& b = parts.b;
    if (!a.exists() && !b.exists()) continue;
    require<CheckpointError>(a.exists() && b.exists(),
                             "{}: the adapter {} has one factor of the layer {}, expected both (lora_A and "
                             "lora_B); get the adapter again",
                             printable(adapter.place), printable(adapter.name), printable(layer));
    require<CheckpointError>(
        a.shape.rows == b.shape.columns && a.shape.rows > 0,
        "{}: {} is [{}, {}] and {} is [{}, {}], expected [rank, in_features] and [out_features, rank] of the "
        "same rank; get the adapter again",
        printable(adapter.place), printable(a.name), a.shape.rows, a.shape.columns, printable(b.name),
        b.shape.rows, b.shape.columns);
  }
  require<CheckpointError>(
      !adapter.layers.empty() || !adapter.tensors.empty(),
      "{}: the adapter {} has no tensors, expected factors of layers (lora_A, lora_B); get "
      "the adapter again",
      printable(adapter.place), printable(adapter.name));
}

std::string adapter_identity(std::span<const MappedFile* const> files, std::string_view more) {
  std::vector<ContentHash> parts = {{.low = hash_of(more), .high = mixed(hash_of(more))}};
  for (const MappedFile* const file : files) {
    std::vector<ContentHash> chunks(hashed_chunks(file->bytes().size()));
    hash_chunks(*file, {0, chunks.size()}, chunks);
    parts.push_back(combined(chunks));
  }
  return combined(parts).hex();
}

Adapters::Adapters(std::span<const AdapterOptions> options, const ModelSpec& spec,
                   std::string_view architecture) {
  for (const AdapterOptions& option : options) {
    const std::filesystem::path& path = option.path;
    std::error_code error;
    const bool is_folder = std::filesystem::is_directory(path, error);
    require<CheckpointError>(
        is_folder || std::filesystem::is_regular_file(path, error),
        "cannot open the adapter {}: expected a folder with adapter_config.json, or a GGUF "
        "file, found nothing at \"{}\"; check the path on every host",
        printable(option.name), printable(path.string()));
    all_.push_back(is_folder ? open_peft_adapter(option) : open_gguf_adapter(option, spec, architecture));
    check_factors(all_.back());
  }
}

std::optional<Adapter> Adapters::take_replaced(const TensorNames& names) {
  std::optional<Adapter> taken;
  for (Adapter& adapter : all_) {
    Adapter replaced{.name = adapter.name, .place = adapter.place, .identity = adapter.identity};
    for (const std::string& table : {names.embed_tokens, names.lm_head}) {
      if (auto own = adapter.tensors.extract(layer_key(tensor_names::weight_of(table))); !own.empty())
        replaced.tensors.insert(std::move(own));
    }
    std::swap(adapter.tensors, replaced.tensors);  // the adapter keeps its tables
    if (replaced.tensors.empty()) continue;
    require<ConfigError>(all_.size() == 1,
                         "{}: the adapter {} replaces {} (modules_to_save), expected no other adapter; leave "
                         "the others out, or merge it into the model (tp-infer quantize --lora)",
                         printable(adapter.place), printable(adapter.name),
                         printable(replaced.tensors.begin()->second.name));
    adapter.is_exclusive = true;
    taken = std::move(replaced);
  }
  return taken;
}

std::uint64_t Adapters::fingerprint() const {
  std::uint64_t hash = hash_of("adapters");
  for (const Adapter& adapter : all_) hash = hash_of(adapter.identity, hash);
  return hash;
}

}  // namespace tp
