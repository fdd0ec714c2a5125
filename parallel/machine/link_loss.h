// The end of a job over several hosts after the link to a host is cut.
//
// Ranks that wait longer than their timeout end and tell mpirun, which tells its daemons. mpirun notices a
// lost daemon only by keepalive probes, and by those only while it has nothing to send: what it has sent
// before that, TCP repeats for a quarter of an hour.
#pragma once

#include <functional>
#include <string>

namespace tp {

struct LinkLoss {
  double timeout = 0.0;  // seconds that ranks should wait; 0: forever
  std::string notice{};  // for the user, or nothing
};

// For ranks that wait `timeout` seconds at most. `parameter`: gives the value of one of Open MPI's
// parameters, empty if it is not set.
LinkLoss plan_link_loss(double timeout, const std::function<std::string(const std::string& name)>& parameter);

// The plan of this process, from the parameters of mpirun and of Open MPI's files. It changes nothing unless
// mpirun has started ranks on several hosts.
LinkLoss plan_link_loss(double timeout);

}  // namespace tp
