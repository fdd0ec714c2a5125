// Why ranks on several hosts may not reach each other.
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

// "; or Open MPI tries docker0 (172.17.0.1), ...: name the network, mpirun --mca btl_tcp_if_include eth0
// ...". Empty if there is nothing to choose from.
std::string network_hint(const std::vector<NetworkInterface>& interfaces);

// The hint for this job: empty if its ranks are on one host, or if mpirun's options name a network.
std::string network_hint();

}  // namespace tp
