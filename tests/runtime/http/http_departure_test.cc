// Clients that leave, and clients that end only their direction of the connection.

#include "tests/runtime/http/http_server_under_test.h"
#include "tests/serve/http_client.h"

#include <chrono>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;

TEST(HttpClients, NoticesThatTheClientOfAStreamHasLeft) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("GET", "/stream"));
  const auto stream = test.stream();
  client.close();
  EXPECT_TRUE(test.is_abandoned());
  stream->write("nobody reads this");
}

TEST(HttpClients, NoticesThatAClientHasLeftBeforeItsAnswer) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("POST", "/wait", "x"));
  const auto exchange = test.stream();
  client.reset();
  EXPECT_TRUE(test.is_abandoned());
}

// "nc -N", and programs that end their direction of the connection after the request.
TEST(HttpClients, AnswersAClientThatHasEndedItsDirection) {
  ServerUnderTest test;
  for (const bool at_once : {true, false}) {
    test.streams = {};
    HttpClient client(test.port());
    client.send(request_text("POST", "/wait", "x"));
    if (at_once) client.end_sending();
    const auto exchange = test.stream();
    client.end_sending();
    // Longer than the interval at which the server checks the client.
    std::this_thread::sleep_for(at_once ? 1500ms : 50ms);
    EXPECT_EQ(test.abandoned, 0);
    exchange->respond({.body = "{}"});
    const HttpReply reply = client.read();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "{}");
    EXPECT_TRUE(client.is_closed_by_server());
  }
}

TEST(HttpClients, StreamsToAClientThatHasEndedItsDirection) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("GET", "/stream"));
  client.end_sending();
  const auto stream = test.stream();
  for (int i = 0; i < 20; ++i) {
    stream->write("piece ");
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(test.abandoned, 0);
  stream->end_stream();
  const HttpReply reply = client.read();
  EXPECT_EQ(reply.body.size(), 20 * std::string_view("piece ").size());
  EXPECT_TRUE(reply.is_complete);
}

TEST(HttpClients, AnswersRequestsThatCameTogetherBeforeTheEndOfADirection) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("POST", "/wait", "x") + request_text("POST", "/2", "two"));
  client.end_sending();
  const auto exchange = test.stream();
  std::this_thread::sleep_for(1200ms);
  exchange->respond({.body = "{}"});
  EXPECT_EQ(client.read().body, "{}");
  EXPECT_EQ(client.read().body, "POST /2 two");
}

// A client of a whole answer closes its connection. This looks like the end of its direction.
TEST(HttpClients, NoticesThatAClientHasClosedBeforeItsAnswer) {
  for (const bool ends_first : {false, true}) {
    ServerUnderTest test;
    HttpClient client(test.port());
    client.send(request_text("POST", "/wait", "x"));
    const auto exchange = test.stream();
    if (ends_first) client.end_sending();
    std::this_thread::sleep_for(ends_first ? 700ms : 0ms);
    client.close();
    EXPECT_TRUE(test.is_abandoned()) << ends_first;
  }
}

TEST(HttpClients, NoticesAtAPieceThatTheClientOfAStreamHasClosed) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("GET", "/stream"));
  const auto stream = test.stream();
  stream->write("one");
  ASSERT_NE(client.read_until("one").find("one"), std::string::npos);
  client.close();
  stream->write("two");
  EXPECT_TRUE(test.is_abandoned());
}

TEST(HttpClients, NoticesThatAClientHasLeftThatHadSentMore) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("POST", "/wait", "x") + "\r\n");
  const auto exchange = test.stream();
  client.close();
  EXPECT_TRUE(test.is_abandoned());
}

}  // namespace
}  // namespace tp::test
