#include "runtime/access/request_log.h"

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
    EXPECT_NE(line.find("member"), line.npos) << line;
    EXPECT_NE(line.find("text"), line.npos) << line;
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
  EXPECT_NE(line.find(" user=bob "), line.npos) << line;
  EXPECT_NE(line.find(" request=r1?user?alice??x? "), line.npos) << line;
  EXPECT_NE(line.find(" param=a?user?alice expected user?alice;"), line.npos) << line;
  const std::string json = line_of(request, true);
  EXPECT_NE(json.find(R"("request_id":"r1 user=alice \"x\"")"), json.npos) << json;
}

TEST(RequestLog, NamesTheClientsKey) {
  const LoggedRequest request{
      .client = "192.0.2.7", .user = "anna", .method = "POST", .path = "/x", .status = 200};
  EXPECT_NE(line_of(request, false).find(" 192.0.2.7 POST /x 200 user=anna "), std::string::npos);
  EXPECT_NE(line_of(request, true).find("\"user\":\"anna\""), std::string::npos);
  EXPECT_EQ(line_of({.method = "GET"}, false).find("user"), std::string::npos);
}

}  // namespace
}  // namespace tp::test
