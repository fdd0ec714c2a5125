#include "parallel/machine/fabric_devices.h"

#include "tests/temporary_directory.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

// Whether a host has a fabric if it has only this folder, in addition to every host's devices.
bool has_with(const std::string& path) {
  const test::TemporaryDirectory root;
  for (const char* folder : {"dev/null", "dev/hidraw0", "dev/net", "sys/class/net/eth0"})
    std::filesystem::create_directories(root.path() / folder);
  std::filesystem::create_directories(root.path() / path);
  return has_fabric_device(root.path());
}

TEST(FabricDevices, AreFoundInTheirClassesAndAmongTheDevices) {
  for (const char* path : {"sys/class/infiniband/mlx5_0", "sys/class/infiniband/efa_0", "sys/class/cxi/cxi0",
                           "dev/hfi1_0", "dev/ipath", "dev/cxi0", "dev/kgni0", "dev/infiniband/uverbs0"}) {
    EXPECT_TRUE(has_with(path)) << path;
  }
}

TEST(FabricDevices, AreMissingOnAHostWithEthernetAlone) {
  EXPECT_FALSE(has_with("sys/class/net/eth1"));
  EXPECT_FALSE(has_with("sys/class/infiniband"));  // a driver without a device
  EXPECT_FALSE(has_fabric_device("/nowhere"));
}

}  // namespace
}  // namespace tp
