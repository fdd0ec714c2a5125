// Networks that have their own libraries beside sockets: InfiniBand, Omni-Path, Slingshot, EFA.
#pragma once

#include <filesystem>

namespace tp {

// Whether this host has a device of such a network. `root` contains dev and sys; tests pass another folder.
bool has_fabric_device(const std::filesystem::path& root = "/");

}  // namespace tp
