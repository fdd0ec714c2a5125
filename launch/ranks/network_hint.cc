#include "launch/ranks/network_hint.h"

#include "parallel/machine/launcher.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>

namespace tp {
namespace {

std::string address_of(const sockaddr* address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const void* const bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  return ::inet_ntop(AF_INET, bytes, text.data(), text.size()) == nullptr ? "" : text.data();
}

// The kernel's bridges. Docker and others use them to connect containers.
bool is_bridge(const std::string& name) {
  std::error_code ignored;
  return std::filesystem::exists("/sys/class/net/" + name + "/bridge", ignored) ||
         name.starts_with("docker") || name.starts_with("virbr");
}

// Returns each name once, although an interface with several addresses has several entries.
std::vector<std::string> names_of(const std::vector<NetworkInterface>& interfaces, bool bridges) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const NetworkInterface& interface : interfaces) {
    if (interface.is_bridge != bridges || !seen.insert(interface.name).second) continue;
    names.push_back(bridges ? fmt::format("{} ({})", interface.name, interface.address) : interface.name);
  }
  return names;
}

bool has_variable(const char* name) { return std::getenv(name) != nullptr; }

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  std::vector<NetworkInterface> found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    const bool is_used = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0 &&
                         entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET;
    if (is_used) found.push_back({entry->ifa_name, address_of(entry->ifa_addr), is_bridge(entry->ifa_name)});
  }
  ::freeifaddrs(all);
  return found;
}

std::string network_hint(const std::vector<NetworkInterface>& interfaces) {
  const std::vector<std::string> bridges = names_of(interfaces, true);
  const std::vector<std::string> networks = names_of(interfaces, false);
  if (bridges.size() + networks.size() < 2 || networks.empty()) return {};
  const std::string tried =
      bridges.empty()
          ? fmt::format("one of {} that the hosts do not share", fmt::join(networks, ", "))
          : fmt::format("{}, which other hosts may have with the same address", fmt::join(bridges, ", "));
  return fmt::format(
      "; or Open MPI tries {}: name the hosts' network, mpirun --mca btl_tcp_if_include {} --mca "
      "oob_tcp_if_include {}",
      tried, networks.front(), networks.front());
}

std::string network_hint() {
  const bool is_named =
      has_variable("OMPI_MCA_btl_tcp_if_include") || has_variable("OMPI_MCA_btl_tcp_if_exclude");
  return is_named || !launched_rank().on_several_hosts ? "" : network_hint(network_interfaces());
}

}  // namespace tp
