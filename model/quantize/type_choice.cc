#include "model/quantize/type_choice.h"

#include "model/config/tensor_names.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>

namespace tp {
namespace {

struct Quantization {
  std::string_view name;
  std::string_view type;
  std::uint32_t file_type;
  std::string_view more{};
};

// Numbers from llama.h, llama_ftype.
constexpr std::array kQuantizations = {
    Quantization{"f32", "F32", 0},
    Quantization{"f16", "F16", 1},
    Quantization{"bf16", "BF16", 32},
    Quantization{"int8", "Q8_0", 7},
    Quantization{"q8_0", "Q8_0", 7},
    Quantization{"q6_k", "Q6_K", 18},
    Quantization{"q5_k_m", "Q5_K", 17, "Q6_K"},
    Quantization{"q5_k", "Q5_K", 16},
    Quantization{"q5_1", "Q5_1", 9},
    Quantization{"q5_0", "Q5_0", 8},
    Quantization{"q4_k_m", "Q4_K", 15, "Q6_K"},
    Quantization{"q4_k", "Q4_K", 14},
    Quantization{"int4", "Q4_0", 2},
    Quantization{"q4_0", "Q4_0", 2},
    Quantization{"q4_1", "Q4_1", 3},
    Quantization{"iq4_nl", "IQ4_NL", 25},
    Quantization{"iq4_xs", "IQ4_XS", 30},
    Quantization{"mxfp4", "MXFP4", 38},
    Quantization{"q3_k", "Q3_K", 11},
    Quantization{"q2_k", "Q2_K", 10},
};

struct Fallback {
  std::string_view type;
  std::string_view shorter;
};

// Source: llama.cpp, llama-quant.cpp. If rows are not whole blocks of 32 either, the type is F16.
constexpr std::array kFallbacks = {
    Fallback{"Q2_K", "IQ4_NL"}, Fallback{"Q3_K", "IQ4_NL"}, Fallback{"IQ4_XS", "IQ4_NL"},
    Fallback{"Q4_K", "Q5_0"},   Fallback{"Q5_K", "Q5_1"},   Fallback{"Q6_K", "Q8_0"},
};

GgufType type_named(std::string_view name) { return *find_gguf_type(name); }

// The layer's number: 3 for "blk.3.attn_v.weight".
std::size_t layer_of(std::string_view tensor) {
  constexpr std::string_view kBlocks = "blk.";
  std::size_t layer = 0;
  if (tensor.starts_with(kBlocks))
    std::from_chars(tensor.data() + kBlocks.size(), tensor.data() + tensor.size(), layer);
  return layer;
}

// The layers on which a model's quality depends most: the first and the last eighth, and every third layer in
// between.
bool is_sensitive(std::size_t layer, std::size_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TypeChoice::TypeChoice(std::string_view name, ModelFacts facts) : facts_(std::move(facts)) {
  const auto found = std::ranges::find(kQuantizations, name, &Quantization::name);
  assert(found != kQuantizations.end());
  type_ = found->type;
  more_ = found->more;
  file_type_ = found->file_type;
}

std::vector<std::string> TypeChoice::names() {
  std::vector<std::string> names;
  for (const Quantization& quantization : kQuantizations) names.emplace_back(quantization.name);
  return names;
}

bool TypeChoice::is_matrix(std::string_view tensor, std::span<const std::size_t> shape) {
  return shape.size() >= 2 && tensor.ends_with(".weight") && may_be_quantized(tensor) &&
         !tensor.starts_with("position_embd") && !tensor.starts_with("token_types");
}

GgufType TypeChoice::type_of(std::string_view tensor, std::span<const std::size_t> shape) const {
  GgufType type = type_named(wanted_type(tensor));
  if (shape.back() % type.block_elements == 0) return type;
  const auto fallback = std::ranges::find(kFallbacks, type.name, &Fallback::type);
  if (fallback != kFallbacks.end()) type = type_named(fallback->shorter);
  return shape.back() % type.block_elements == 0 ? type : type_named("F16");
}

std::string_view TypeChoice::wanted_type(std::string_view tensor) const {
  const bool is_head = tensor == "output.weight" || (!facts_.has_lm_head && tensor == "token_embd.weight");
  if (plain_type(type_named(type_)) || type_ == "Q8_0") return type_;
  if (is_head) return facts_.architecture == "falcon" ? "Q8_0" : "Q6_K";
  return more_.empty() ? type_ : mixed_type(tensor);
}

// Mixes types like llama.cpp's Q4_K_M and Q5_K_M.
std::string_view TypeChoice::mixed_type(std::string_view tensor) const {
  const std::size_t layer = layer_of(tensor);
  const bool is_q4 = type_ == "Q4_K";
  const bool has_eight_experts = facts_.experts == 8;
  if (contains(tensor, "attn_v.weight")) {
    if (has_eight_experts) return "Q8_0";
    if (is_sensitive(layer, facts_.layers)) return more_;
    // In a 70B model, eight query heads share a value head, so extra bits cost little.
    return is_q4 && facts_.layers == 80 && facts_.has_grouped_queries ? "Q5_K" : type_;
  }
  if (contains(tensor, "attn_k.weight") && has_eight_experts) return "Q8_0";
  if (contains(tensor, "attn_qkv.weight")) return is_q4 ? "Q5_K" : more_;
  if (contains(tensor, "attn_output.weight") && has_eight_experts && is_q4) return "Q5_K";
  if (contains(tensor, "ffn_down")) {
    if (facts_.architecture == "falcon" && is_q4 && layer >= facts_.layers / 16)
      return is_sensitive(layer, facts_.layers) ? "Q5_K" : type_;
    return is_sensitive(layer, facts_.layers) ? more_ : type_;
  }
  return type_;
}

}  // namespace tp
