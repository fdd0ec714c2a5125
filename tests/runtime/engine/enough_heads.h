// Whether a model can run on the ranks of the test.
#pragma once

#include "model/config/config.h"
#include "tests/mpi_test.h"

#include <filesystem>

namespace tp::test {

// Each rank needs an attention head.
inline bool fits(const std::filesystem::path& model) {
  return load_config(model).num_attention_heads >= world().size();
}

}  // namespace tp::test
