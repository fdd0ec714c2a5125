#include "runtime/access/trusted_proxies.h"

#include "tp/error.h"

#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

std::string client_of(const TrustedProxies& proxies, const std::string& peer, const HttpHeaders& headers) {
  return proxies.client_of({.headers = headers, .client = peer});
}

TEST(TrustedProxies, NameTheClientThatIsNotAProxy) {
  const TrustedProxies proxies({"10.0.0.1", "10.1.0.0/16", "::1"});
  const auto client = [&](const std::string& list) {
    return client_of(proxies, "10.0.0.1", {{"x-forwarded-for", list}});
  };
  EXPECT_EQ(client("192.168.1.7"), "192.168.1.7");
  EXPECT_EQ(client("6.6.6.6, 192.168.1.7"), "192.168.1.7") << "a client can write what comes before";
  EXPECT_EQ(client("192.168.1.7, 10.1.2.3"), "192.168.1.7") << "two proxies";
  EXPECT_EQ(client("6.6.6.6, 192.168.1.7, 10.1.2.3"), "192.168.1.7");
  EXPECT_EQ(client("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(client("2001:db8::7"), "2001:db8::7");
  EXPECT_EQ(client("[2001:db8::7]:4711"), "2001:db8::7");
  EXPECT_EQ(client("192.168.1.7:4711"), "192.168.1.7");
  EXPECT_EQ(client_of(proxies, "::1", {{"x-forwarded-for", "6.6.6.6"}, {"x-forwarded-for", "192.168.1.7"}}),
            "192.168.1.7");
  for (const char* wrong : {"", "unknown", "_hidden", "1.2.3", "192.168.1.7, x", ",", "[", "[]"})
    EXPECT_EQ(client(wrong), "10.0.0.1") << wrong;
}

TEST(TrustedProxies, AreTheOnlyOnesWhoseHeaderCounts) {
  const TrustedProxies proxies({"10.1.0.0/16"});
  for (const char* stranger : {"10.0.0.1", "10.2.0.1", "::1", "192.168.1.7"})
    EXPECT_EQ(client_of(proxies, stranger, {{"x-forwarded-for", "6.6.6.6"}}), stranger);
  EXPECT_EQ(client_of(TrustedProxies(), "10.1.0.1", {{"x-forwarded-for", "6.6.6.6"}}), "10.1.0.1");
  EXPECT_EQ(client_of(TrustedProxies({"0.0.0.0/0"}), "10.1.0.1", {{"x-forwarded-for", "fe80::1"}}),
            "fe80::1");
  EXPECT_EQ(
      client_of(TrustedProxies({"2001:db8::/33"}), "2001:db8:7fff::1", {{"x-forwarded-for", "6.6.6.6"}}),
      "6.6.6.6");
  EXPECT_EQ(
      client_of(TrustedProxies({"2001:db8::/33"}), "2001:db8:8000::1", {{"x-forwarded-for", "6.6.6.6"}}),
      "2001:db8:8000::1");
}

TEST(TrustedProxies, RejectInvalidAddresses) {
  for (const char* text : {"", "localhost", "10.0.0.1/33", "10.0.0.1/", "::/129", "10.0.0/8", "10.0.0.1/-1"})
    EXPECT_THROW(TrustedProxies({text}), ConfigError) << text;
}

}  // namespace
}  // namespace tp
