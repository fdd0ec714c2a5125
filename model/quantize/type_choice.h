// Chooses the type of each tensor in a quantized file.
#pragma once

#include "model/weights/gguf/gguf_type.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The facts on which the choice depends.
struct ModelFacts {
  std::string architecture;  // GGUF's name: "llama"
  std::size_t layers = 0;
  std::size_t experts = 0;
  bool has_lm_head = true;  // false if the embedding is also the LM head
  bool has_grouped_queries = false;
};

// A quantization by name: one type for all matrices, such as "q4_k", or llama.cpp's mix of types, such as
// "q4_k_m". Both follow llama.cpp's rules. The LM head, and an embedding that is also the LM head, get Q6_K
// (Q8_0 in Falcon) if the other matrices have fewer bits. If the rows of a matrix are not whole blocks of its
// type, the matrix gets a type with shorter blocks and no fewer bits. Norms, biases, routers and position
// tables are not quantized.
class TypeChoice {
 public:
  // `name` is one of names().
  TypeChoice(std::string_view name, ModelFacts facts);

  // All names: "int4", "q4_k", "q4_k_m", ...
  static std::vector<std::string> names();

  // Whether a tensor is a weight matrix to quantize. Other tensors keep their type.
  static bool is_matrix(std::string_view tensor, std::span<const std::size_t> shape);

  GgufType type_of(std::string_view tensor, std::span<const std::size_t> shape) const;

  // general.file_type: ggml's number of the quantization.
  std::uint32_t file_type() const { return file_type_; }

 private:
  std::string_view wanted_type(std::string_view tensor) const;
  std::string_view mixed_type(std::string_view tensor) const;

  ModelFacts facts_;
  std::string_view type_;
  std::string_view more_;  // the type of a mix for the tensors that get more bits; empty if there is no mix
  std::uint32_t file_type_ = 0;
};

}  // namespace tp
