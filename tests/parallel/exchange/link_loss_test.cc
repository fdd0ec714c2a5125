#include "parallel/machine/link_loss.h"

#include "tests/expect_contains.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Parameters = std::map<std::string, std::string>;

LinkLoss planned(double timeout, const Parameters& parameters) {
  return plan_link_loss(timeout, [&](const std::string& name) {
    const auto found = parameters.find(name);
    return found == parameters.end() ? std::string() : found->second;
  });
}

// mpirun notices a loss after 5 + 2 * 3 seconds.
const Parameters kQuick = {
    {"oob_tcp_keepalive_time", "5"}, {"oob_tcp_keepalive_intvl", "2"}, {"oob_tcp_keepalive_probes", "3"}};

TEST(LinkLoss, HasNoEffectWithoutATimeLimit) {
  EXPECT_EQ(planned(0.0, {}).notice, "");
  EXPECT_EQ(planned(0.0, {}).timeout, 0.0);
}

TEST(LinkLoss, IsNoticedTooLateWithoutTheOptionsOfMpirun) {
  const Parameters without_probes = {{"oob_tcp_keepalive_time", "5"}};  // 5 + 20 * 9 seconds
  const Parameters never = {{"oob_tcp_keepalive_time", "0"}};
  for (const Parameters& parameters : {Parameters(), without_probes, never}) {
    const LinkLoss loss = planned(8.0, parameters);
    EXPECT_EQ(loss.timeout, 8.0);
    EXPECT_CONTAINS(loss.notice,
                    "--mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 --mca "
                    "oob_tcp_keepalive_probes 3");
  }
}

TEST(LinkLoss, IsNoticedByMpirunBeforeTheRanksEnd) {
  for (const double timeout : {15.0, 600.0}) {
    EXPECT_EQ(planned(timeout, kQuick).timeout, timeout);
    EXPECT_EQ(planned(timeout, kQuick).notice, "");
  }
  const LinkLoss loss = planned(8.0, kQuick);
  EXPECT_EQ(loss.timeout, 15.0);
  EXPECT_CONTAINS(loss.notice, "`timeout` 8 becomes 15: mpirun notices a cut link after 11 s");
}

}  // namespace
}  // namespace tp
