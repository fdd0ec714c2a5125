// The gateway's input: announcements, and a job's messages.
#include "runtime/gateway/announcement.h"
#include "runtime/gateway/error_lines.h"
#include "runtime/http/http_call.h"
#include "tp/error.h"

#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(Announcement, IsReadAsItWasWritten) {
  const Announcement written{.host = "0.0.0.0",
                             .port = 4000,
                             .process = 12,
                             .machine = "node\"1",
                             .isa = "avx2",
                             .card = "{\"id\": \"m\"}",
                             .model = "m",
                             .ranks = 3,
                             .origins = {"https://chat.example.com", "*"}};
  const Announcement read = parse_announcement(written.to_text());
  EXPECT_EQ(read.to_text(), written.to_text());
  EXPECT_EQ(read.port, 4000);
  EXPECT_EQ(read.origins, written.origins);
  EXPECT_EQ(secret_in("/tp-infer/announce/abc"), "abc");
}

TEST(Announcement, MustBeComplete) {
  for (const char* text :
       {"", "1", "{}", R"({"host":"a","port":0,"process":1,"machine":"","isa":"","model":"","ranks":1})",
        R"({"host":"a","port":70000,"process":1,"machine":"","isa":"","model":"","ranks":1})",
        R"({"host":1,"port":1,"process":1,"machine":"","isa":"","model":"","ranks":1})",
        R"({"host":"a","port":1,"process":1,"machine":"","isa":"","model":"","ranks":1,"origins":[1]})"})
    EXPECT_THROW(parse_announcement(text), RequestError) << text;
  try {
    parse_announcement("{\"port\": 1}");
    FAIL() << "expected an error";
  } catch (const RequestError& error) {
    EXPECT_EQ(std::string(error.what()).find("json.exception"), std::string::npos) << error.what();
  }
}

TEST(Announcement, MayBeNestedDeeply) {
  const std::string list = std::string(120000, '[') + std::string(120000, ']');
  EXPECT_THROW(parse_announcement("{\"port\":" + list + "}"), RequestError);
}

TEST(ErrorLines, FindTheLineThatExplainsTheEnd) {
  ErrorLines lines;
  lines.add("loading\n-----\n");
  EXPECT_EQ(lines.best(), "loading");
  lines.add("tp-infer: cannot open /x: no such f");
  EXPECT_EQ(lines.best(), "loading") << "the line is not complete";
  lines.add("ile\nPrimary job terminated\n");
  EXPECT_EQ(lines.best(), "tp-infer: cannot open /x: no such file");
  lines.add(
      "mpirun noticed that process rank 1 with PID 7 on node a exited on signal 9 (Killed).\ntp-infer: "
      "x\n---\n");
  EXPECT_EQ(lines.best(),
            "mpirun noticed that process rank 1 with PID 7 on node a exited on signal 9 (Killed).");
  lines.add("  Remote daemon: [[4732,0],1] on node 10.0.0.2\ntp-infer: the server ends\n");
  EXPECT_EQ(lines.best(), "the host 10.0.0.2 was lost");
  lines.expect_errors();
  lines.add("127.0.0.1 POST /v1/completions 200\n");
  EXPECT_EQ(lines.best(), "") << "the log of requests explains nothing";
  lines.add("tp-infer: a rank was lost\n");
  EXPECT_EQ(lines.best(), "tp-infer: a rank was lost");
}

TEST(ErrorLines, KeepLinesShortAndPrintable) {
  ErrorLines lines;
  lines.add("tp-infer: \x1b[2J" + std::string(1000000, 'x') + "\n");
  EXPECT_LT(lines.best().size(), 500U);
  EXPECT_EQ(lines.best().find('\x1b'), std::string::npos);
}

TEST(HttpUrl, HasAHostAPortAndAPath) {
  const HttpUrl url = parse_http_url("http://node1:8080/a/b");
  EXPECT_EQ(url.host, "node1");
  EXPECT_EQ(url.port, 8080);
  EXPECT_EQ(url.path, "/a/b");
  EXPECT_EQ(parse_http_url("http://[::1]:81").host, "::1");
  EXPECT_EQ(parse_http_url("http://[::1]:81").port, 81);
  EXPECT_EQ(parse_http_url("http://[::1]/x").port, 80);
  EXPECT_EQ(parse_http_url("http://a").path, "/");
  for (const char* text :
       {"", "http://", "https://a", "a:1", "http://a:b", "http://a:99999", "http://:1", "http://a:"})
    EXPECT_THROW(parse_http_url(text), ConfigError) << text;
}

}  // namespace
}  // namespace tp
