// Which element types a checkpoint has, and their in-memory types.
#pragma once

#include "model/kernels/packed_weight.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// The tensors of one type that are held alike.
struct TypeUse {
  std::string type;  // as the file calls it: "BF16", "Q4_K"
  std::size_t tensors = 0;
  std::size_t elements = 0;
  std::optional<WeightType>
      held_as;          // in memory with `--weights auto`; nothing if such tensors cannot be read
  bool exactly = true;  // whether without rounding
};

// Counts tensors; the type with the most elements comes first in its result.
class TypeUses {
 public:
  // `use` is of one tensor.
  void add(TypeUse use);
  std::vector<TypeUse> sorted() const;

 private:
  std::vector<TypeUse> uses_;
};

// "Q4_K as bf16, F32 as f32", or only of those that are rounded: "Q4_K as bf16".
std::string text_of_all(const std::vector<TypeUse>& uses);
std::string text_of_rounded(const std::vector<TypeUse>& uses);

}  // namespace tp
