#include "model/weights/gguf/gguf_fused.h"

#include "model/files/parse_number.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <cstddef>
#include <string_view>

namespace tp {

GgufRows find_gguf_rows(const GgufFiles& files, const std::string& tensor) {
  constexpr std::string_view kBlock = "blk.";
  constexpr std::string_view kAttention = ".attn_";
  if (const GgufFiles::Entry* const entry = files.find(tensor)) return {entry};
  const std::size_t dot = tensor.find(kAttention);
  if (!tensor.starts_with(kBlock) || dot == tensor.npos) return {};
  const std::string_view rest = std::string_view(tensor).substr(dot + kAttention.size());  // "k.weight"
  const std::string fused =
      tensor.substr(0, dot) + std::string(kAttention) + "qkv" + std::string(rest.substr(1));
  const auto layer =
      parse_number<std::size_t>(std::string_view(tensor).substr(kBlock.size(), dot - kBlock.size()));
  const bool is_part = rest.starts_with("q.") || rest.starts_with("k.") || rest.starts_with("v.");
  const GgufFiles::Entry* const entry = is_part && layer ? files.find(fused) : nullptr;
  if (entry == nullptr) return {};
  const std::size_t dimensions = entry->tensor.shape.size();
  if (dimensions != 2 && (dimensions != 1 || entry->tensor.type.block_elements != 1)) return {};
  // Rows of queries may contain gates, so that their number does not follow from the number of heads.
  const std::size_t all = entry->tensor.shape.front();
  const ModelMetadata model(files);
  const std::uint64_t keys = model.key_rows(*layer);
  const std::uint64_t values = model.value_rows(*layer);
  if (keys == 0 || values == 0 || keys >= all || values >= all - keys) return {};
  const std::size_t queries = all - keys - values;
  if (rest.front() == 'q') return {entry, {0, queries}};
  if (rest.front() == 'k') return {entry, {queries, queries + keys}};
  return {entry, {all - values, all}};
}

}  // namespace tp
