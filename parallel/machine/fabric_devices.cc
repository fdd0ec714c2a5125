#include "parallel/machine/fabric_devices.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

namespace tp {
namespace {

// Device classes. The first contains InfiniBand, RoCE, iWARP, EFA and usNIC devices. The second contains
// Slingshot devices.
constexpr std::array<std::string_view, 2> kClasses = {"sys/class/infiniband", "sys/class/cxi"};
// Prefixes of names in /dev: Omni-Path (hfi1) and its predecessor (ipath), Slingshot, Aries and InfiniBand.
// Some of these drivers register no class.
constexpr std::array<std::string_view, 5> kPrefixes = {"hfi1", "ipath", "cxi", "kgni", "infiniband"};

bool is_fabric(std::string_view device) {
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return device.substr(0, prefix.size()) == prefix; });
}

}  // namespace

bool has_fabric_device(const std::filesystem::path& root) {
  using Entries = std::filesystem::directory_iterator;
  std::error_code missing;  // an unreadable folder counts as empty
  for (const std::string_view folder : kClasses)
    if (Entries(root / folder, missing) != Entries()) return true;
  for (Entries entry(root / "dev", missing); !missing && entry != Entries(); entry.increment(missing))
    if (is_fabric(entry->path().filename().native())) return true;
  return false;
}

}  // namespace tp
