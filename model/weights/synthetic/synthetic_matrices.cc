#include "model/weights/synthetic/synthetic_matrices.h"

#include "model/weights/source/slice_check.h"
#include "parallel/machine/hash.h"

namespace tp {

void SyntheticMatrices::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                             TensorView<float> out) const {
  if (shape.rows == 1) return vectors_.read(name, shape, slice, out);
  check_slice(name, shape, slice, out);
  read_matrix(name, shape, slice, out);
}

std::vector<TypeUse> SyntheticMatrices::types() const {
  return {
      {.type = std::string(name_of(type_)), .tensors = 1, .elements = 1, .held_as = type_, .exactly = true}};
}

std::uint64_t SyntheticMatrices::fingerprint() const { return hash_of(name_of(type_), mixed(seed_)); }

std::uint64_t SyntheticMatrices::key_of(const std::string& name, std::size_t row) const {
  return mixed(mixed(hash_of(name) + mixed(seed_)) + row);
}

}  // namespace tp
