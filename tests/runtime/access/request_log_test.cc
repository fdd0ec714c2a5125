#include "runtime/access/request_log.h"

#include "tests/expect_contains.h"

#include <memory>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

std::string line_of(const LoggedRequest& request, bool as_json) {
  const auto lines = std::make_shared<std::vector<std::string>>();
  {
    const RequestLog log([lines](const std::string& line) { lines->push_back(line); }, as_json);
    log.add(request);
  }
  return lines->empty() ? "" : lines->front();
}

// A terminal would execute control characters when it shows the log.
TEST(RequestLog, HasNoControlCharactersOfClients) {
  const LoggedRequest request{.method = "POST", .param = "\x1b[2Jmember", .reason = "found \x1b[2Jtext"};
  for (const bool as_json : {false, true}) {
    const std::string line = line_of(request, as_json);
    EXPECT_CONTAINS(line, "member");
    EXPECT_CONTAINS(line, "text");
    EXPECT_EQ(line.find('\x1b'), line.npos) << line;
    EXPECT_EQ(line.find("\\u001b"), line.npos) << line;
  }
}

// Programs that read the log divide its lines at spaces and "=".
TEST(RequestLog, HasNoFieldsOfClients) {
  const LoggedRequest request{.client = "192.0.2.7",
                              .user = "bob",
                              .method = "POST",
                              .path = "/x=y",
                              .request_id = "r1 user=alice \"x\"",
                              .param = "a user=alice",
                              .reason = "expected user=alice",
                              .warnings = {"tools: user=alice were ignored"}};
  const std::string line = line_of(request, false);
  EXPECT_EQ(line.find("user=alice"), line.npos) << line;
  EXPECT_CONTAINS(line, " user=bob ");
  EXPECT_CONTAINS(line, " request=r1?user?alice??x? ");
  EXPECT_CONTAINS(line, " param=a?user?alice expected user?alice;");
  const std::string json = line_of(request, true);
  EXPECT_CONTAINS(json, R"("request_id":"r1 user=alice \"x\"")");
}

TEST(RequestLog, NamesTheClientsKey) {
  const LoggedRequest request{
      .client = "192.0.2.7", .user = "anna", .method = "POST", .path = "/x", .status = 200};
  EXPECT_CONTAINS(line_of(request, false), " 192.0.2.7 POST /x 200 user=anna ");
  EXPECT_CONTAINS(line_of(request, true), "\"user\":\"anna\"");
  EXPECT_EQ(line_of({.method = "GET"}, false).find("user"), std::string::npos);
}

}  // namespace
}  // namespace tp::test
