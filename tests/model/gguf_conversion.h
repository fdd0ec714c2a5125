// Converts fixtures to GGUF files, like llama.cpp's converter.
#pragma once

#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/reference/fixture.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace tp::test {

// A tensor of a fixture, in float32.
struct TensorValues {
  std::vector<std::uint64_t> shape;
  std::vector<float> elements;
};

// A GGUF file under construction: general metadata, and a fixture's tensors under GGUF's names. Metadata keys
// begin with the architecture.
class GgufConversion {
 public:
  GgufConversion(const reference::Fixture& fixture, const std::string& architecture)
      : config_(load_config(fixture.folder)),
        source_(SafetensorsCheckpoint::open(fixture.folder)),
        part_(source_->contains("model.embed_tokens.weight") ? "" : "language_model."),
        architecture_(architecture) {
    file_.text("general.architecture", architecture);
    whole("context_length", config_.max_position_embeddings);
    whole("embedding_length", config_.hidden_size);
    whole("block_count", config_.num_hidden_layers);
    whole("feed_forward_length", config_.intermediate_size);
    whole("attention.head_count", config_.num_attention_heads);
    whole("attention.head_count_kv", config_.kv_lora_rank != 0 ? 1 : config_.num_key_value_heads);
    whole("attention.key_length",
          config_.kv_lora_rank != 0 ? config_.kv_lora_rank + config_.head_dim : config_.head_dim);
    number("attention.layer_norm_rms_epsilon", config_.rms_norm_eps);
    number("rope.freq_base", config_.rope_theta);
    whole("expert_count", config_.num_experts);
    whole("expert_used_count", config_.num_experts_per_tok);
    whole("expert_feed_forward_length", config_.moe_intermediate_size);
    copy("token_embd.weight", "model.embed_tokens.weight");
    copy("output_norm.weight", "model.norm.weight");
    if (contains("lm_head.weight")) copy("output.weight", "lm_head.weight");
  }

  const ModelConfig& config() const { return config_; }
  void whole(const std::string& key, std::size_t value) {
    file_.whole(architecture_ + "." + key, static_cast<std::uint32_t>(value));
  }
  void number(const std::string& key, double value) {
    file_.value(architecture_ + "." + key, GgufKind::f32, le(static_cast<float>(value)));
  }
  void boolean(const std::string& key, bool value) {
    file_.value(architecture_ + "." + key, GgufKind::boolean, le(static_cast<std::uint8_t>(value)));
  }
  void text(const std::string& key, const std::string& value) {
    file_.text(architecture_ + "." + key, value);
  }

  bool contains(const std::string& name) const { return source_->contains(part_ + name); }
  TensorValues read(const std::string& of_model) const {
    const std::string name = part_ + of_model;
    const auto& stored = source_->find_raw(name)->tensor.shape;
    TensorValues values{{stored.begin(), stored.end()}, {}};
    const std::size_t columns = stored.back();
    std::size_t rows = 1;
    for (std::size_t i = 0; i + 1 < stored.size(); ++i) rows *= stored[i];
    const MatrixShape shape{rows, columns};
    values.elements.resize(shape.size());
    source_->read(name, shape, TensorSlice::whole(shape), {values.elements.data(), rows, columns});
    return values;
  }
  void write(const std::string& name, const TensorValues& values) {
    file_.tensor(name, values.shape, "F32", bytes_of(values.elements));
  }
  void copy(const std::string& to, const std::string& from) { write(to, read(from)); }
  // Copies the tensors that block `layer` has: `names` maps GGUF's names to the checkpoint's, without
  // prefixes.
  void copy_block(std::size_t layer, const std::map<std::string, std::string>& names) {
    for (const auto& [to, from] : names) {
      const std::string name = fmt::format("model.layers.{}.{}", layer, from);
      if (contains(name)) copy(fmt::format("blk.{}.{}", layer, to), name);
    }
  }
  // Writes all experts' tensors as one stack. `from` is a format string for the expert's number.
  void stack(std::size_t layer, const std::string& to, const std::string& from) {
    TensorValues all;
    for (std::size_t expert = 0; expert < config_.num_experts; ++expert) {
      const std::string name =
          fmt::format("model.layers.{}.", layer) + fmt::format(fmt::runtime(from), expert);
      if (!contains(name)) return;
      const TensorValues one = read(name);
      all.shape = one.shape;
      all.elements.insert(all.elements.end(), one.elements.begin(), one.elements.end());
    }
    all.shape.insert(all.shape.begin(), config_.num_experts);
    write(fmt::format("blk.{}.{}", layer, to), all);
  }

  std::string file() const { return file_.file(); }

 private:
  ModelConfig config_;
  std::unique_ptr<SafetensorsCheckpoint> source_;
  std::string part_;  // prefix of all names if the model is part of a larger one
  std::string architecture_;
  GgufBuilder file_;
};

// Maps GGUF's names of a block's tensors to the checkpoint's names, without prefixes.
inline const std::map<std::string, std::string> kLlamaBlock = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"}};

// Takes every `apart`-th element of the innermost dimension, starting at `first`.
TensorValues every(const TensorValues& values, std::size_t first, std::size_t apart);

// Transposes the matrices of a stack.
TensorValues transposed(const TensorValues& values);

// Interleaves the halves of each head's rows, as llama.cpp's RoPE expects.
TensorValues permuted(TensorValues values, std::size_t head_dim);

// Takes `count` rows of each matrix in a stack, starting at row `begin`.
TensorValues rows_of(const TensorValues& stack, std::size_t begin, std::size_t count);

}  // namespace tp::test
