// Explains why ranks on several hosts may not reach each other.
#pragma once

#include <string>
#include <vector>

namespace tp {

// A network interface of this host.
struct NetworkInterface {
  std::string name;
  std::string address;
  bool is_bridge = false;  // interface of containers or virtual machines on this host, such as docker0
};

// Interfaces that are up, have an IPv4 address and lead to other machines.
std::vector<NetworkInterface> network_interfaces();

// Returns "; or Open MPI tries docker0 (172.17.0.1), ...: name the network, mpirun --mca btl_tcp_if_include
// eth0 ...", or an empty text if there is no choice.
std::string network_hint(const std::vector<NetworkInterface>& interfaces);

// Returns the hint for this job, or an empty text if its ranks are on one host or mpirun's options name a
// network.
std::string network_hint();

}  // namespace tp
