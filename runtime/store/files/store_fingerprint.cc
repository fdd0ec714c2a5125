#include "runtime/store/files/store_fingerprint.h"

#include "model/config/spec.h"
#include "model/kernels/simd/isa.h"
#include "model/layers/linear/rope.h"
#include "parallel/machine/hash.h"
#include "runtime/store/files/arithmetic_fingerprint.h"
#include "tp/version.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

// The contents of config.json; nothing for a GGUF file, whose header the weights' hash covers.
std::string config_of(const EngineOptions& options) {
  const bool is_folder = std::filesystem::is_directory(options.model);
  if (!is_folder && !options.synthetic) return {};
  std::ifstream file(is_folder ? options.model / "config.json" : options.model, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Covers overrides, and the length that selects among the factors of longrope.
std::uint64_t hash_of_ropes(const ModelSpec& spec) {
  std::uint64_t hash = hash_of("");
  for (const Rope& rope : distinct_ropes(spec)) {
    const std::span<const float> frequencies = rope.frequencies();
    hash = hash_of({reinterpret_cast<const char*>(frequencies.data()), frequencies.size_bytes()}, hash);
    hash = hash_of(fmt::format("{}", rope.magnitude()), hash);
  }
  return hash;
}

// The folded ids of hash tables, which follow from tokenizer.json; empty for models without them.
std::string describe_folding(const ModelSpec& spec) {
  std::string text;
  for (const BlockSpec& block : spec.blocks) {
    if (!block.hash_table || block.hash_table->hash.folded_size == 0) continue;
    const std::vector<TokenId>& folded = block.hash_table->hash.folded;
    const std::string_view bytes(reinterpret_cast<const char*>(folded.data()),
                                 folded.size() * sizeof(TokenId));
    text += fmt::format(" folding {:016x}", hash_of(bytes));
  }
  return text;
}

}  // namespace

std::string store_facts(const EngineOptions& options, const ModelSpec& spec, const ContentHash& weights) {
  const KvType kv_type = options.kv_type.value_or(KvType::f32);
  return fmt::format(
      "weights {} as {} config {:016x} ropes {:016x} cache {} blocks of {} wire {} features {} same bits {} "
      "isa {} arithmetic {:016x} build {}{}",
      weights.hex(), options.weights ? name_of(*options.weights) : "auto", hash_of(config_of(options)),
      hash_of_ropes(spec), name_of(kv_type), options.block_size, name_of(options.wire),
      options.favor_features, options.same_bits, kernels::name_of(kernels::active_isa()),
      arithmetic_fingerprint(kv_type, options.block_size), build_text(), describe_folding(spec));
}

std::string store_description(const EngineOptions& options) {
  const std::filesystem::path folder = options.synthetic ? options.model.parent_path() : options.model;
  return fmt::format("{}, weights {}, cache {}{}", (folder / "").parent_path().filename().string(),
                     options.weights ? name_of(*options.weights) : "auto",
                     name_of(options.kv_type.value_or(KvType::f32)), options.same_bits ? ", same bits" : "");
}

Sha256Digest common_fingerprint(std::span<const Sha256Digest> ranks) {
  std::vector<Sha256Digest> digests(ranks.begin(), ranks.end());
  std::ranges::sort(digests);
  digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
  return Sha256().add(std::as_bytes(std::span(digests))).finish();
}

}  // namespace tp
