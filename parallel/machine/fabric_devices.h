// Networks with their own communication libraries: InfiniBand, Omni-Path, Slingshot, EFA.
#pragma once

#include <filesystem>

namespace tp {

// Whether this host has a device for one of these networks. `root` is the folder that contains dev and sys;
// tests pass a fake one.
bool has_fabric_device(const std::filesystem::path& root = "/");

}  // namespace tp
