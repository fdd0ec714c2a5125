#include "runtime/access/access.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

HttpRequest request_with(const HttpHeaders& headers) {
  return {.method = "POST", .target = "/v1/x", .headers = headers};
}

int status_of(const Access& access, const HttpHeaders& headers, bool is_public = false) {
  HttpRequest request = request_with(headers);
  const bool may_lack_key = access.identify(request) || is_public;
  const std::optional<ApiError> refusal = access.refusal(request, may_lack_key);
  return refusal ? refusal->status : 200;
}

TEST(Access, IsFreeWithoutKeys) { EXPECT_EQ(status_of(Access({}), {{"host", "localhost:8080"}}), 200); }

TEST(Access, NeedsOneOfTheKeys) {
  const Access access({.api_keys = {{.key = "secret"}, {.key = "other"}}});
  EXPECT_EQ(status_of(access, {}), 401);
  EXPECT_EQ(status_of(access, {{"authorization", "Bearer secret"}}), 200);
  EXPECT_EQ(status_of(access, {{"authorization", "bearer other"}}), 200);
  EXPECT_EQ(status_of(access, {{"x-api-key", "secret"}}), 200);
  for (const char* wrong :
       {"Bearer ", "Bearer secre", "Bearer secrets", "Bearer Secret", "secret", "Basic secret"})
    EXPECT_EQ(status_of(access, {{"authorization", wrong}}), 401) << wrong;
  EXPECT_EQ(status_of(access, {}, true), 200) << "what is public needs none";
}

// A proxy or another service may have its own key in one of the headers.
TEST(Access, CountsTheRightKeyInAnyHeader) {
  const Access access({.api_keys = {{.key = "secret"}}});
  for (const char* right : {"x-api-key", "api-key", "authorization"}) {
    const std::string key = right == std::string("authorization") ? "Bearer secret" : "secret";
    EXPECT_EQ(status_of(access, {{right, key}}), 200) << right;
    for (const char* other : {"x-api-key", "api-key", "authorization"}) {
      EXPECT_EQ(status_of(access, {{other, "Bearer wrong"}, {right, key}}), 200) << other << right;
      EXPECT_EQ(status_of(access, {{right, key}, {other, "Bearer wrong"}}), 200) << other << right;
    }
  }
  EXPECT_EQ(status_of(access, {{"authorization", "Bearer wrong"}, {"x-api-key", "wrong"}}), 401);
  EXPECT_EQ(status_of(access, {{"x-secret", "secret"}}), 401);
}

TEST(Access, ReturnsTheNameOfAKey) {
  Access access({.api_keys = {{.name = "anna", .key = "a-key"}, {.key = "nameless"}}});
  const auto user_of = [&](const HttpHeaders& headers) {
    HttpRequest request = request_with(headers);
    access.identify(request);
    return request.user;
  };
  EXPECT_EQ(user_of({{"authorization", "Bearer a-key"}}), "anna");
  EXPECT_EQ(user_of({{"authorization", "Bearer other"}, {"x-api-key", "a-key"}}), "anna");
  EXPECT_EQ(user_of({{"x-api-key", "nameless"}}), "-");
  EXPECT_EQ(user_of({{"x-api-key", "anna"}}), "") << "a name is no key";
  access.set_keys({{.name = "ben", .key = "b-key"}});
  EXPECT_EQ(user_of({{"x-api-key", "b-key"}}), "ben");
  EXPECT_EQ(status_of(access, {{"x-api-key", "a-key"}}), 401) << "it is removed";
}

TEST(Access, ComparesKeysAsAWhole) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_FALSE(equal_in_constant_time("abc", "abcabc"));
  EXPECT_FALSE(equal_in_constant_time("abcabc", "abc"));
  EXPECT_FALSE(equal_in_constant_time("abc", ""));
}

// The log contains the codes.
TEST(Access, RefusalsHaveCodes) {
  const auto code = [](HttpHeaders headers) {
    HttpRequest request;
    request.headers = std::move(headers);
    return Access({}).refusal(request, true).value_or(ApiError{}).code;
  };
  EXPECT_EQ(code({{"host", "evil.example.com"}}), "host_not_allowed");
  EXPECT_EQ(code({{"host", "localhost"}, {"origin", "https://evil.example.com"}}), "origin_not_allowed");
}

// A web page can make its own name resolve to this machine.
TEST(Access, RejectsForeignHostNames) {
  const Access access({.hosts = {"gpu.example.com"}});
  for (const char* own : {"localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:1", "[::1]:8080",
                          "192.168.1.7:8080", "gpu.example.com", "gpu.example.com:443", "x.localhost"})
    EXPECT_EQ(status_of(access, {{"host", own}}), 200) << own;
  for (const char* foreign : {"evil.example.com", "evil.example.com:8080", "localhost.evil.com",
                              "127.0.0.1.evil.com", "xgpu.example.com"})
    EXPECT_EQ(status_of(access, {{"host", foreign}}), 403) << foreign;
  EXPECT_EQ(status_of(Access({.hosts = {"*"}}), {{"host", "evil.example.com"}}), 200);
}

TEST(Access, RefusesWebPagesOfOtherOrigins) {
  const Access access({.hosts = {"gpu.example.com"}, .origins = {"https://chat.example.com"}});
  const auto status = [&](const char* origin) {
    return status_of(access, {{"host", "gpu.example.com:8080"}, {"origin", origin}});
  };
  for (const char* own : {"http://localhost:3000", "http://127.0.0.1:8080", "https://chat.example.com",
                          "http://gpu.example.com:8080"})
    EXPECT_EQ(status(own), 200) << own;
  for (const char* foreign : {"https://evil.example.com", "https://chat.example.com.evil.com", "null",
                              "http://gpu.example.com:9999", "http://localhost.evil.com"})
    EXPECT_EQ(status(foreign), 403) << foreign;
}

TEST(Access, LetsPagesOfAllowedOriginsReadResponses) {
  const Access access({.origins = {"https://chat.example.com"}});
  const HttpHeaders headers =
      access.origins().headers(request_with({{"origin", "https://chat.example.com"}}));
  ASSERT_FALSE(headers.empty());
  EXPECT_EQ(headers.front(),
            (std::pair<std::string, std::string>("Access-Control-Allow-Origin", "https://chat.example.com")));
  EXPECT_TRUE(access.origins().headers(request_with({{"origin", "https://evil.example.com"}})).empty());
  EXPECT_TRUE(access.origins().headers(request_with({})).empty());
}

}  // namespace
}  // namespace tp::test
