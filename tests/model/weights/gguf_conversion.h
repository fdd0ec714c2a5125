// Converts fixtures to GGUF files, like llama.cpp's converter.
#pragma once

#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/reference/fixture.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp::test {

// A tensor of a fixture, in float32.
struct TensorValues {
  std::vector<std::uint64_t> shape;
  std::vector<float> elements;
};

// Maps GGUF's names of a block's tensors to the checkpoint's names, without prefixes.
using BlockTensors = std::map<std::string, std::string>;

// A GGUF file under construction: general metadata, and a fixture's tensors under GGUF's names. Metadata keys
// begin with the architecture. A later value or tensor replaces an earlier one with the same name.
class GgufConversion {
 public:
  GgufConversion(const reference::Fixture& fixture, const std::string& architecture);

  const CheckpointConfig& config() const { return config_; }
  void whole(const std::string& key, std::size_t value) {
    values_[key] = {GgufKind::u32, le(static_cast<std::uint32_t>(value))};
  }
  void number(const std::string& key, double value) {
    values_[key] = {GgufKind::f32, le(static_cast<float>(value))};
  }
  void boolean(const std::string& key, bool value) {
    values_[key] = {GgufKind::boolean, le(static_cast<std::uint8_t>(value))};
  }
  void remove(const std::string& key) { values_.erase(key); }
  void text(const std::string& key, const std::string& value) {
    values_[key] = {GgufKind::string, gguf_string(value)};
  }
  template <class T>
  void numbers(const std::string& key, GgufKind kind, const std::vector<T>& list) {
    values_[key] = {GgufKind::array,
                    le(static_cast<std::uint32_t>(kind), std::uint64_t{list.size()}) + bytes_of(list)};
  }

  // Names of the fixture's tensors are those of a model that is not a part of a larger one.
  bool contains(const std::string& name) const { return source_->contains(stored_name(name)); }
  TensorValues read(const std::string& name) const;
  // Like the converter, drops extents of 1 from shapes of two or more extents.
  void write(const std::string& name, TensorValues values);
  void copy(const std::string& to, const std::string& from) { write(to, read(from)); }
  // Copies the tensors that the block has. `prefix`: of the checkpoint's names; model.layers.N. by default.
  void copy_block(std::size_t layer, const BlockTensors& names, const std::string& prefix);
  void copy_block(std::size_t layer, const BlockTensors& names) {
    copy_block(layer, names, fmt::format("model.layers.{}.", layer));
  }
  // Writes all experts' tensors as one stack. `from` is a format string for the expert's number. `blocks`:
  // the prefix of a block's number.
  void stack(std::size_t layer, const std::string& to, const std::string& from,
             const std::string& blocks = "model.layers.");
  // Changes a tensor that has been written, if it exists.
  void change(const std::string& name, const std::function<void(TensorValues&)>& change);

  const std::map<std::string, TensorValues>& tensors() const { return tensors_; }
  // For values and tensors of other kinds.
  GgufBuilder builder() const;
  std::string file() const { return builder().file(); }

 private:
  std::string stored_name(const std::string& name) const;

  CheckpointConfig config_;
  std::unique_ptr<SafetensorsCheckpoint> source_;
  std::string architecture_;
  std::map<std::string, std::pair<GgufKind, std::string>> values_;  // bytes by key
  std::map<std::string, TensorValues> tensors_;
};

inline const BlockTensors kLlamaBlock = {{"attn_norm.weight", "input_layernorm.weight"},
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

// Writes the stacks of gate, up and down projections. `prefix` and `parts`: the checkpoint's names of an
// expert's tensors are PREFIX NUMBER . PART .weight.
void write_experts_one_by_one(GgufConversion& to, std::size_t layer, const std::string& prefix,
                              const std::vector<std::string>& parts);

// Takes every `apart`-th element of the innermost dimension, starting at `first`.
TensorValues every(const TensorValues& values, std::size_t first, std::size_t apart);

// Transposes the matrices of a stack.
TensorValues transposed(const TensorValues& values);

// Interleaves the halves of each head of queries and keys in a block that has been written, as llama.cpp's
// RoPE expects.
void interleave_query_key(GgufConversion& to, std::size_t layer);

// Takes `count` rows of each matrix in a stack, starting at row `begin`.
TensorValues rows_of(const TensorValues& stack, std::size_t begin, std::size_t count);

// Files contain the gains of norms that the checkpoint stores minus one.
void add_one(TensorValues& values);

// Compares the logits of a GGUF file with the fixture's, and returns the parts of the file that the model
// doesn't use, on the first rank.
std::vector<std::string> expect_logits_in(const std::filesystem::path& file,
                                          const reference::Fixture& fixture);

// Compares the file's logits with the fixture's. The model must use all parts of the file.
void expect_logits(const GgufConversion& conversion, const reference::Fixture& fixture);

}  // namespace tp::test
