// Falcon: GPT-NeoX with fewer KV heads, without most biases, and with one norm for both halves of a block or
// one each.
#include "model/config/families/family.h"

#include <bit>
#include <cmath>

namespace tp::families {
namespace {

// Press et al., Train Short, Test Long, 2022: powers of 2^(-8 / heads), and where the heads are no power of
// two, those for the next lower power of two, then every second one for the next higher.
std::vector<float> alibi_slopes(std::size_t heads) {
  const std::size_t lower = std::bit_floor(heads);
  std::vector<float> slopes;
  const auto append = [&](std::size_t power, double denominator) {
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * static_cast<double>(power) / denominator)));
  };
  for (std::size_t i = 1; i <= lower; ++i) append(i, static_cast<double>(lower));
  for (std::size_t i = 1; slopes.size() < heads; i += 2) append(i, static_cast<double>(2 * lower));
  return slopes;
}

// Whether the halves of a block have a norm each. One that waits for the other half has, and so has the new
// architecture unless it is told otherwise.
bool has_two_norms(const ModelConfig& config) {
  if (!config.new_decoder_architecture) return !config.parallel_attn;
  return config.num_ln_in_parallel_attn != 1;
}

DecoderSpec falcon_spec(const ModelConfig& config) {
  DecoderSpec spec = gpt_neox_spec(config);
  const bool new_names = config.new_decoder_architecture && has_two_norms(config);
  spec.names = new_names ? tensor_names::falcon_with_two_norms() : tensor_names::falcon();
  for (BlockSpec& block : spec.blocks) {
    const bool parallel = config.parallel_attn || config.new_decoder_architecture;
    block.wiring = parallel ? BlockSpec::Wiring::parallel : BlockSpec::Wiring::sequential;
    if (!has_two_norms(config)) block.pre_feed_forward_norm.reset();
    if (!config.alibi) continue;
    AttentionSpec& attention = attention_of(block);
    attention.rope.reset();
    attention.alibi_slopes = alibi_slopes(config.num_attention_heads);
    // The original scales scores after it has added to them.
    for (float& slope : attention.alibi_slopes) slope *= attention.scale;
  }
  return spec;
}

}  // namespace

Family falcon() {
  Family family{.defaults = {}, .intermediate_per_hidden = 4, .make_spec = falcon_spec};
  family.defaults.hidden_act = "gelu";
  family.defaults.tie_word_embeddings = true;
  return family;
}

}  // namespace tp::families
