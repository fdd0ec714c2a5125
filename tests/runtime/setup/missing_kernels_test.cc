#include "runtime/setup/missing_kernels.h"

#include <vector>

namespace tp {
namespace {

using kernels::Isa;

TEST(MissingKernels, AreNotReportedIfTheBuildHasEveryRanksKernels) {
  const std::vector<RankKernels> ranks = {{Isa::avx2, Isa::avx2}, {Isa::amx, Isa::amx}};
  EXPECT_EQ(missing_kernels(ranks), "");
}

TEST(MissingKernels, NameTheFirstRankAndHowToBuildThem) {
  const std::vector<RankKernels> ranks = {
      {Isa::avx2, Isa::avx2}, {Isa::avx512_vnni, Isa::avx2}, {Isa::avx512, Isa::avx2}};
  EXPECT_EQ(
      missing_kernels(ranks),
      "2 of 3 ranks could compute faster: rank 1's processor has avx512_vnni, but this build has kernels "
      "up to avx2 for it; compile all kernels with launch/quickstart --all-cpus, or cmake "
      "-DTP_CPUS=all");
}

TEST(MissingKernels, AProcessorWithoutAvx2IsNamed) {
  const std::vector<RankKernels> ranks = {{Isa::avx2, Isa::avx2}, {Isa::portable, Isa::portable}};
  EXPECT_EQ(
      missing_kernels(ranks),
      "1 of 2 ranks compute slowly, with portable loops: rank 1's processor has no AVX2; use processors "
      "with AVX2 or AVX-512");
}

}  // namespace
}  // namespace tp
