#include "parallel/machine/mca_parameters.h"

#include "tests/temporary_directory.h"

#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

// Returns the parameter for a user's file and a system file.
std::string mtl_with(const std::string& of_user, const std::string& of_system) {
  const test::TemporaryDirectory folder;
  folder.write("user", of_user);
  folder.write("system", of_system);
  return mca_without("psm,psm2,ofi", "mtl",
                     {folder.path() / "user", folder.path() / "missing", folder.path() / "system"});
}

TEST(McaParameters, ExcludeNetworkLibrariesIfNoFileChoosesATransport) {
  EXPECT_EQ(mca_without("psm,psm2,ofi", "mtl", {}), "^psm,psm2,ofi");
  EXPECT_EQ(mca_without("tcp", "btl", {}), "^tcp");
  EXPECT_EQ(mtl_with("", "# pml = cm\nbtl = tcp\npml_base_verbose = 1\n=\n"), "^psm,psm2,ofi");
  // Debian's file contains this.
  EXPECT_EQ(mtl_with("", "btl_base_warn_component_unused=0\nmtl = ^ofi\npml = ^ucx\n"), "^psm,psm2,ofi,ofi");
  EXPECT_EQ(mtl_with("", "\tmtl =\t^portals4,psm3 \r\n"), "^psm,psm2,ofi,portals4,psm3");
}

TEST(McaParameters, KeepTheChoicesOfFiles) {
  EXPECT_EQ(mtl_with("", "mtl = psm2\n"), "");
  EXPECT_EQ(mtl_with("", "mtl=ofi# and no other"), "");
  EXPECT_EQ(mtl_with("pml = cm\n", "pml = ^ucx\nmtl = ^ofi\n"), "");
  EXPECT_EQ(mtl_with("pml = ^ucx\n", "pml = cm\n"), "^psm,psm2,ofi") << "the user's file comes first";
  EXPECT_EQ(mtl_with("pml = ob1\npml = ^cm\n", ""), "^psm,psm2,ofi") << "the last line of a file counts";
}

}  // namespace
}  // namespace tp
