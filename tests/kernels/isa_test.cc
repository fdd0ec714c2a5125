#include "model/kernels/isa.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace tp::kernels {
namespace {

TEST(Isa, TheEnvironmentVariableChoosesIt) {
  const char* wanted = std::getenv("TP_ISA");
  EXPECT_EQ(name_of(active_isa()), wanted == nullptr ? name_of(best_isa()) : wanted);
}

}  // namespace
}  // namespace tp::kernels
