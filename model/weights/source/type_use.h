// The element types of a checkpoint, and their in-memory types.
#pragma once

#include "model/kernels/packed_weight.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// The tensors of one type that have the same type in memory.
struct TypeUse {
  std::string type;  // name in the file: "BF16", "Q4_K"
  std::size_t tensors = 0;
  std::size_t elements = 0;
  std::optional<WeightType>
      held_as;          // type in memory with `--weights auto`; nothing if such tensors cannot be read
  bool exactly = true;  // whether without rounding
};

// Counts tensors by type. In the result, the type with the most elements comes first.
class TypeUses {
 public:
  // `use`: a single tensor.
  void add(TypeUse use);
  std::vector<TypeUse> sorted() const;

 private:
  std::vector<TypeUse> uses_;
};

// "Q4_K as bf16, Q6_K as q6_k": the types whose elements are rounded in memory.
std::string list_rounded(const std::vector<TypeUse>& uses);

}  // namespace tp
