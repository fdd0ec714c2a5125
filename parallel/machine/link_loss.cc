#include "parallel/machine/link_loss.h"

#include "parallel/machine/launcher.h"
#include "parallel/machine/mca_parameters.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr double kLongest = 30.0;  // seconds; longest acceptable time until mpirun detects the loss
constexpr double kMargin = 4.0;    // seconds; shortest time between this detection and the ranks' timeout

// Open MPI 5's launcher passes its parameters to its daemons on their command lines, and to no rank.
std::string parameter_of_launcher(const std::string& name) {
  const std::optional<Launcher> launcher = find_launcher();
  const std::vector<std::string> words = launcher ? options_of(*launcher) : std::vector<std::string>();
  const auto place = std::ranges::find(words, name);
  return place == words.end() || place + 1 == words.end() ? std::string() : *(place + 1);
}

}  // namespace

LinkLoss plan_link_loss(double timeout, const std::function<std::string(const std::string&)>& parameter) {
  if (timeout <= 0.0) return {timeout};
  const auto value = [&](const char* name, double usual) {
    const std::string text = parameter(fmt::format("oob_tcp_keepalive_{}", name));
    return text.empty() ? usual : std::atof(text.c_str());
  };
  const double idle = value("time", 300.0);  // Open MPI's defaults; 0: no probes
  const double notices = idle + value("intvl", 20.0) * value("probes", 9.0);
  if (idle <= 0.0 || notices > kLongest) {
    return {timeout,
            "after a cut link `timeout` ends the ranks, but mpirun stays for minutes; give mpirun --mca "
            "oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3"};
  }
  const double min = notices + kMargin;
  if (timeout >= min) return {timeout};
  return {min, fmt::format("`timeout` {0} becomes {1}: mpirun notices a cut link after {2} s, and stays for "
                           "minutes if the ranks end before; give at least {1}",
                           timeout, min, notices)};
}

LinkLoss plan_link_loss(double timeout) {
  const LaunchedRank launched = launched_rank();
  if (!launched.by_mpirun || !launched.on_several_hosts) return {timeout};
  return plan_link_loss(timeout, [](const std::string& name) {
    if (const char* const variable = std::getenv(("OMPI_MCA_" + name).c_str()); variable != nullptr)
      return std::string(variable);
    const std::string text = parameter_of_launcher(name);
    return text.empty() ? mca_parameter(mca_parameter_files(), name) : text;
  });
}

}  // namespace tp
