// Makes sure that a job on several hosts ends after the link to a host is cut.
//
// mpirun uses TCP keepalive probes to detect a lost host. TCP sends probes only while all sent data has
// been acknowledged; otherwise, it retransmits the data for about 15 minutes. When a rank exits because of
// its timeout, mpirun sends messages to all hosts, and the lost host does not acknowledge them. So mpirun
// must detect the loss before the ranks' timeout.
#pragma once

#include <functional>
#include <string>

namespace tp {

struct LinkLoss {
  double timeout = 0.0;  // seconds that ranks should wait; 0: forever
  std::string notice{};  // message for the user, or empty
};

// Returns the plan for ranks that should wait at most `timeout` seconds. `parameter` returns the value of an
// Open MPI parameter, or an empty string if it is not set.
LinkLoss plan_link_loss(double timeout, const std::function<std::string(const std::string& name)>& parameter);

// Returns the plan for this process, based on the parameters given to mpirun or set in Open MPI's files. The
// plan keeps `timeout` unless mpirun started ranks on several hosts.
LinkLoss plan_link_loss(double timeout);

}  // namespace tp
