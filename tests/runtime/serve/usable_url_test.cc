// The address that `serve` and `gateway` print.

#include "runtime/access/access.h"
#include "runtime/http/http_call.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tp::test {
namespace {

TEST(UsableUrl, NamesThisMachineInsteadOfAllInterfaces) {
  char machine[256] = "";
  ASSERT_EQ(::gethostname(machine, sizeof(machine) - 1), 0);
  for (const char* any : {"0.0.0.0", "::"})
    EXPECT_EQ(usable_url(any, 8080), fmt::format("http://{}:8080", machine)) << any;
  EXPECT_EQ(usable_url("127.0.0.1", 80), "http://127.0.0.1:80");
  EXPECT_EQ(usable_url("fe80::1", 8080), "http://[fe80::1]:8080");
}

// The server refuses names that it doesn't know, so it must know the one that it prints.
TEST(UsableUrl, IsAllowedByTheServer) {
  const std::string host = usable_url("0.0.0.0", 8080).substr(std::string("http://").size());
  const Access access{AccessRules{}};
  const auto request_to = [](const std::string& name) {
    HttpRequest request{.method = "GET", .target = "/"};
    request.headers.emplace_back("host", name);
    return request;
  };
  EXPECT_FALSE(access.refusal(request_to(host), true).has_value());
  EXPECT_TRUE(access.refusal(request_to("x" + host), true).has_value());
}

}  // namespace
}  // namespace tp::test
