// Which type each tensor of a quantized file gets.
#pragma once

#include "model/weights/gguf/gguf_type.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// What the choice depends on.
struct ModelFacts {
  std::string architecture;  // of GGUF: "llama"
  std::size_t layers = 0;
  std::size_t experts = 0;
  bool has_lm_head = true;  // of its own
  bool has_grouped_queries = false;
};

// A quantization by name: a type for all matrices, as "q4_k", or llama.cpp's mix of several, as "q4_k_m". Its
// rules hold for both: the LM head, and an embedding that is also one, get Q6_K (Q8_0 in Falcon) where other
// matrices have fewer bits; a matrix whose rows are no whole blocks of its type gets one with shorter blocks
// and no fewer bits; norms, biases, routers and tables of positions are not quantized.
class TypeChoice {
 public:
  // `name` is one of names().
  TypeChoice(std::string_view name, ModelFacts facts);

  // "int4", "q4_k", "q4_k_m", ...
  static std::vector<std::string> names();

  // Whether a tensor is a matrix of weights that gets a type. Others stay what they are.
  static bool is_matrix(std::string_view tensor, std::span<const std::size_t> shape);

  GgufType type_of(std::string_view tensor, std::span<const std::size_t> shape) const;

  // general.file_type: ggml's number of the mix.
  std::uint32_t file_type() const { return file_type_; }

 private:
  std::string_view wanted_type(std::string_view tensor) const;
  std::string_view mixed_type(std::string_view tensor) const;

  ModelFacts facts_;
  std::string_view type_;
  std::string_view more_;  // of a mix: the type of the tensors that get more bits
  std::uint32_t file_type_ = 0;
};

}  // namespace tp
