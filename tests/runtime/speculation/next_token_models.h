// Models whose layer for multi-token prediction is constructed to know the model's next tokens.
#pragma once

#include "tests/model/layers/next_token_checkpoint.h"
#include "tp/engine.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tp::test {

inline constexpr std::size_t kVocab = 64;
inline constexpr std::size_t kHidden = 64;
inline constexpr std::size_t kExperts = 4;

inline nlohmann::json small_glm() {
  return {{"architectures", {"Glm4MoeForCausalLM"}},
          {"attention_bias", false},
          {"eos_token_id", 0},
          {"first_k_dense_replace", 0},
          {"head_dim", 16},
          {"hidden_act", "silu"},
          {"hidden_size", kHidden},
          {"intermediate_size", 96},
          {"max_position_embeddings", 256},
          {"moe_intermediate_size", 24},
          {"n_group", 1},
          {"n_routed_experts", kExperts},
          {"n_shared_experts", 1},
          {"norm_topk_prob", true},
          {"num_attention_heads", 4},
          {"num_experts_per_tok", 2},
          {"num_hidden_layers", 1},
          {"num_key_value_heads", 4},
          {"num_nextn_predict_layers", 1},
          {"partial_rotary_factor", 0.5},
          {"rms_norm_eps", 1e-12},
          {"rope_theta", 10000},
          {"routed_scaling_factor", 1.0},
          {"tie_word_embeddings", false},
          {"topk_group", 1},
          {"torch_dtype", "float32"},
          {"use_qk_norm", false},
          {"vocab_size", kVocab}};
}

using Element = std::function<float(std::size_t row, std::size_t column)>;

inline Values matrix(std::size_t rows, std::size_t columns, const Element& element) {
  Values values{{rows, columns}, {}};
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) values.elements.push_back(element(row, column));
  }
  return values;
}

// Adds a block whose attention contributes nothing, so tokens do not influence each other. `spread`: the
// scale of the experts' weights.
inline void add_block(const std::string& prefix, float spread, Tensors& tensors) {
  reference::Random random(7);
  const auto add = [&](const std::string& name, std::size_t rows, std::size_t columns, float scale) {
    tensors[prefix + name + ".weight"] =
        matrix(rows, columns, [&](std::size_t, std::size_t) { return scale * random.number(); });
  };
  const auto add_mlp = [&](const std::string& name) {
    add(name + "gate_proj", 24, kHidden, spread);
    add(name + "up_proj", 24, kHidden, spread);
    add(name + "down_proj", kHidden, 24, spread);
  };
  for (const char* const projection : {"q_proj", "k_proj", "v_proj"})
    add(std::string("self_attn.") + projection, 64, kHidden, 0.2F);
  add("self_attn.o_proj", kHidden, 64, 0.0F);
  add("mlp.gate", kExperts, kHidden, 0.2F);
  tensors[prefix + "mlp.gate.e_score_correction_bias"] = {{kExperts}, std::vector<float>(kExperts, 0.0F)};
  add_mlp("mlp.shared_experts.");
  for (std::size_t i = 0; i < kExperts; ++i) add_mlp("mlp.experts." + std::to_string(i) + ".");
  for (const char* const norm : {"input_layernorm", "post_attention_layernorm"})
    tensors[prefix + norm + ".weight"] = {{kHidden}, std::vector<float>(kHidden, 1.0F)};
}

// `projection`: the element at a row and column of the matrix that multiplies [embedding; state].
inline Tensors model_with_layer(const Element& embedding, const Element& head, float spread,
                                const Element& projection) {
  Tensors tensors;
  const Values ones{{kHidden}, std::vector<float>(kHidden, 1.0F)};
  const std::string layer = "model.layers.1.";
  add_block("model.layers.0.", spread, tensors);
  add_block(layer, spread, tensors);
  tensors["model.embed_tokens.weight"] = matrix(kVocab, kHidden, embedding);
  tensors["lm_head.weight"] = matrix(kVocab, kHidden, head);
  tensors[layer + "eh_proj.weight"] = matrix(kHidden, 2 * kHidden, projection);
  for (const std::string& norm :
       {std::string("model.norm"), layer + "enorm", layer + "hnorm", layer + "shared_head.norm"})
    tensors[norm + ".weight"] = ones;
  return tensors;
}

inline std::size_t follower(std::size_t token) { return (token * 5 + 3) % kVocab; }

// Each token determines the next one. The layer reads only the state and turns it into the next token's
// state, so it needs every state at the right position, including its own states.
inline Tensors model_whose_layer_reads_states() {
  return model_with_layer([](std::size_t token, std::size_t i) { return token == i ? 1.0F : 0.0F; },
                          [](std::size_t token, std::size_t i) { return follower(i) == token ? 4.0F : 0.0F; },
                          0.0F,
                          [](std::size_t row, std::size_t column) {
                            return column >= kHidden && follower(column - kHidden) == row ? 1.0F : 0.0F;
                          });
}

// Each token determines the next one. The layer reads only the token, and has the model's block.
inline Tensors model_whose_layer_copies_it() {
  reference::Random random(3);
  const Values signs = matrix(kVocab, kHidden, [&](std::size_t, std::size_t) {
    return random.coin() ? 1.0F : -1.0F;  // normalization keeps these vectors
  });
  return model_with_layer([&](std::size_t row, std::size_t i) { return signs.elements[row * kHidden + i]; },
                          [&](std::size_t, std::size_t) { return 0.4F * random.number(); }, 0.3F,
                          [](std::size_t row, std::size_t column) { return row == column ? 1.0F : 0.0F; });
}

inline std::vector<TokenId> prompt_of(std::size_t size, std::size_t first) {
  std::vector<TokenId> prompt;
  for (std::size_t i = 0; i < size; ++i) prompt.push_back(static_cast<TokenId>((first + i * i * 7) % kVocab));
  return prompt;
}

inline SpeculationOptions mtp(DraftRanks ranks = DraftRanks::all) {
  return {.drafts = DraftKind::mtp, .tokens = 4, .always = true, .ranks = ranks};
}

}  // namespace tp::test
