// The end of a job on several hosts after the link to a host is cut.
//
// Ranks that wait longer than their timeout exit and notify mpirun, which notifies its daemons. mpirun
// notices a lost daemon only through keepalive probes. TCP sends probes only if all data is acknowledged;
// otherwise, it retransmits the data for a quarter of an hour.
#pragma once

#include <functional>
#include <string>

namespace tp {

struct LinkLoss {
  double timeout = 0.0;  // seconds that ranks should wait; 0: forever
  std::string notice{};  // message for the user, or empty
};

// Plans for ranks that wait at most `timeout` seconds. `parameter` returns the value of an Open MPI
// parameter, or an empty string if it is not set.
LinkLoss plan_link_loss(double timeout, const std::function<std::string(const std::string& name)>& parameter);

// Plans for this process, with the parameters of mpirun and of Open MPI's files. Returns `timeout` unchanged
// unless mpirun started ranks on several hosts.
LinkLoss plan_link_loss(double timeout);

}  // namespace tp
