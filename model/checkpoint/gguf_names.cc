#include "model/checkpoint/gguf_names.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

// Names of layers, # for the number of a block. A second # is that of an expert, whose matrix is one of a
// stack.
using Names = std::map<std::string_view, std::string_view>;

// Llama's names, and what other families call the same thing or have besides.
const Names& common_names() {
  static const Names names = {
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
      {"model.layers.#.self_attn.q_proj", "blk.#.attn_q"},
      {"model.layers.#.self_attn.k_proj", "blk.#.attn_k"},
      {"model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
      {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
      {"model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
      {"model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
      {"model.layers.#.mlp.up_proj", "blk.#.ffn_up"},
      {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
  };
  return names;
}

// A name with its numbers taken out: "model.layers.#.mlp.experts.#.up_proj" and {3, 17}.
struct Pattern {
  std::string text;
  std::vector<std::size_t> numbers;
};

Pattern pattern_of(std::string_view name) {
  Pattern pattern;
  while (true) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string_view word = name.substr(0, dot);
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (!word.empty() && error == std::errc() && end == word.data() + word.size()) {
      pattern.numbers.push_back(number);
      pattern.text += '#';
    } else {
      pattern.text += word;
    }
    if (dot == name.size()) return pattern;
    pattern.text += '.';
    name.remove_prefix(dot + 1);
  }
}

std::string with_number(std::string_view name, const std::vector<std::size_t>& numbers) {
  const std::size_t mark = name.find('#');
  if (mark == name.npos) return std::string(name);
  return fmt::format("{}{}{}", name.substr(0, mark), numbers.front(), name.substr(mark + 1));
}

}  // namespace

std::size_t GgufRowOrder::stored_row(std::size_t row) const {
  switch (kind) {
    case Kind::as_it_was:
      return row;
    case Kind::pairs: {
      const std::size_t half = head_dim / 2;
      return row / head_dim * head_dim + row % half * 2 + row % head_dim / half;
    }
    case Kind::by_kind: {
      const std::size_t group = row / head_dim / (queries_per_group + 2);
      const std::size_t head = row / head_dim % (queries_per_group + 2);
      const std::size_t stored_head = head < queries_per_group
                                          ? group * queries_per_group + head
                                          : groups * head + group;  // head: queries_per_group, or one more
      return stored_head * head_dim + row % head_dim;
    }
  }
  return row;
}

GgufNames::GgufNames(const GgufMetadata& metadata) : architecture_(metadata.text("general.architecture")) {
  const std::string attention = architecture_ + ".attention.";
  const std::size_t heads = std::max<std::size_t>(1, metadata.whole(attention + "head_count"));
  kv_heads_ = std::max<std::size_t>(1, metadata.whole_or(attention + "head_count_kv", heads));
  queries_per_kv_ = heads / kv_heads_;
  head_dim_ = metadata.whole_or(attention + "key_length",
                                metadata.whole(architecture_ + ".embedding_length") / heads);
}

std::optional<GgufPlace> GgufNames::find(std::string_view name) const {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  const std::string_view layer = name.substr(0, dot);
  const std::string_view end = name.substr(dot);  // ".weight" or ".bias"

  const Pattern pattern = pattern_of(layer);
  const auto found = common_names().find(pattern.text);
  if (found == common_names().end()) return std::nullopt;
  GgufPlace place;
  place.tensor = with_number(found->second, pattern.numbers).append(end);
  if (pattern.numbers.size() > 1) place.expert = pattern.numbers[1];
  if (architecture_ == "llama" && (layer.ends_with("q_proj") || layer.ends_with("k_proj")))
    place.rows = {GgufRowOrder::Kind::pairs, head_dim_};
  return place;
}

}  // namespace tp
