#include "model/kernels/simd/isa.h"

#include "model/kernels/simd/tiles/tile_product.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace tp::kernels {
namespace {

// A machine without TP_ISA's instructions reports it once, before a kernel's thread would fail.
class RequiresItsInstructionSet : public testing::Environment {
 public:
  void SetUp() override { kernels::active_isa(); }
};
[[maybe_unused]] const testing::Environment* const environment =
    testing::AddGlobalTestEnvironment(new RequiresItsInstructionSet);

TEST(Isa, TheEnvironmentVariableChoosesIt) {
  const char* wanted = std::getenv("TP_ISA");
  EXPECT_EQ(name_of(active_isa()), wanted == nullptr ? name_of(best_isa()) : wanted);
}

TEST(Isa, CommonToTwoMachinesIsTheBestOfBoth) {
  const Isa own = active_isa();
  const bool fast = bf16_pairs_are_fast();
  EXPECT_EQ(common_isa(own, fast), own);
  EXPECT_EQ(common_isa(Isa::portable, false), Isa::portable);
  if (own == Isa::avx512_bf16) {
    // A build with TP_CPUS=native has fewer sets.
    const Isa without_pairs = is_compiled(Isa::avx512_vnni) ? Isa::avx512_vnni : Isa::avx2;
    EXPECT_EQ(common_isa(own, !fast), without_pairs) << "one multiplies bf16 in pairs, the other does not";
  } else if (own == Isa::amx_emulated) {
    EXPECT_EQ(common_isa(Isa::avx2, false), Isa::portable) << "it has portable kernels";
  } else if (own >= Isa::neon && own <= Isa::i8mm) {
    EXPECT_EQ(common_isa(Isa::i8mm, true), own);
    EXPECT_EQ(common_isa(Isa::neon, false), Isa::neon);
    EXPECT_EQ(common_isa(Isa::avx2, false), Isa::portable) << "x86";
    EXPECT_EQ(common_isa(Isa::amx, false), Isa::portable);
  } else {
    EXPECT_EQ(common_isa(Isa::amx, false), own);
    EXPECT_EQ(common_isa(Isa::dotprod, false), Isa::portable) << "ARM";
  }
  if (own == Isa::avx512) {
    EXPECT_EQ(common_isa(Isa::avx_vnni, false), Isa::avx2) << "Skylake lacks VNNI";
  }
  if (own == Isa::avx_vnni) {
    EXPECT_EQ(common_isa(Isa::avx512, false), Isa::avx2);
    EXPECT_EQ(common_isa(Isa::avx512_vnni, false), own) << "in AVX-512's encoding";
  }
}

// The program checks this before it uses a matrix unit. Emulated tiles must pass, too.
TEST(Isa, TilesWorkIfTheIsaHasThem) {
  const TileKernels* tiles = tile_kernels();
  EXPECT_EQ(tiles != nullptr, active_isa() == Isa::amx || active_isa() == Isa::amx_emulated);
  if (tiles != nullptr) {
    EXPECT_TRUE(tiles->works());
  }
}

}  // namespace
}  // namespace tp::kernels
