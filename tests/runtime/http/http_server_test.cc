// The HTTP server over sockets, with misbehaving clients.

#include "runtime/http/http_server.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/runtime/http/http_server_under_test.h"
#include "tests/serve/http_client.h"
#include "tp/error.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;

TEST(HttpServer, AnswersSeveralRequestsOfAConnection) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("POST", "/a?b=c", "body"));
  EXPECT_EQ(client.read().body, "POST /a?b=c body");
  client.send(request_text("GET", "/b"));
  EXPECT_EQ(client.read().body, "GET /b ");
}

TEST(HttpServer, AnswersRequestsInTheirOrderThatCameTogether) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("GET", "/1") + request_text("POST", "/2", "two") + request_text("GET", "/3"));
  EXPECT_EQ(client.read().body, "GET /1 ");
  EXPECT_EQ(client.read().body, "POST /2 two");
  EXPECT_EQ(client.read().body, "GET /3 ");
}

TEST(HttpServer, SendsNoBodyToHead) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("HEAD", "/a"));
  const HttpReply reply = client.read(true);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-length"), "8");
  client.send(request_text("GET", "/b"));
  EXPECT_EQ(client.read().body, "GET /b ");
}

TEST(HttpServer, StreamsPieceByPiece) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send(request_text("GET", "/stream"));
  const auto stream = test.stream();
  stream->write("one\n\n");
  EXPECT_CONTAINS(client.read_until("one\n\n"), "one");
  stream->write("two\n\n");
  EXPECT_CONTAINS(client.read_until("two\n\n"), "two");
  stream->end_stream();
  const HttpReply reply = client.read();
  EXPECT_EQ(reply.body, "one\n\ntwo\n\n");
  EXPECT_TRUE(reply.is_complete);
  client.send(request_text("GET", "/b"));
  EXPECT_EQ(client.read().body, "GET /b ") << "the connection goes on";
}

TEST(HttpServer, StreamsToOldClientsWithoutChunks) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  const auto stream = test.stream();
  stream->write("one\n");
  stream->end_stream();
  const HttpReply reply = client.read();
  EXPECT_EQ(reply.body, "one\n");
  EXPECT_EQ(reply.headers.count("transfer-encoding"), 0U);
}

TEST(HttpServer, EndsAStreamWhoseClientDoesNotRead) {
  ServerUnderTest test({.unread_bytes = 10'000, .stall_time = 20s});
  HttpClient client(test.port(), 4096);
  client.send(request_text("GET", "/stream"));
  const auto stream = test.stream();
  for (int i = 0; i < 5000 && test.abandoned == 0; ++i) {
    stream->write(std::string(2000, 'x'));
    if (i % 100 == 0) std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(test.is_abandoned());
}

TEST(HttpServer, ClosesConnectionsThatReadNothingForTooLong) {
  ServerUnderTest test({.unread_bytes = 100 << 20, .stall_time = 200ms});
  HttpClient client(test.port(), 4096);
  client.send(request_text("GET", "/stream"));
  const auto stream = test.stream();
  stream->write(std::string(20 << 20, 'x'));
  EXPECT_TRUE(test.is_abandoned());
}

TEST(HttpServer, RefusesBodiesThatAreTooLarge) {
  ServerUnderTest test({.body_bytes = 1000});
  const HttpReply announced = post_text(test.port(), "/a", std::string(1001, 'x'));
  EXPECT_EQ(announced.status, 413);
  EXPECT_CONTAINS(announced.body, "1000 bytes");
  HttpClient client(test.port());
  client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("7d0\r\n" + std::string(2000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(client.read().status, 413);
  EXPECT_EQ(post_text(test.port(), "/a", std::string(1000, 'x')).status, 200);
}

TEST(HttpServer, RespondsToAClientThatStillSendsAHugeBody) {
  ServerUnderTest test({.body_bytes = 1000});
  const HttpReply reply = post_text(test.port(), "/a", std::string(20 << 20, 'x'));
  EXPECT_EQ(reply.status, 413);
}

// Beast reserves memory for the announced length.
TEST(HttpServer, RefusesABodyWithoutRoomInMemory) {
  if (TP_SANITIZED) GTEST_SKIP() << "sanitizers end a program that asks for so much memory";
  constexpr std::size_t kMoreThanAddresses = std::size_t{1} << 60;
  ServerUnderTest test({.body_bytes = kMoreThanAddresses, .all_body_bytes = 2 * kMoreThanAddresses});
  HttpClient client(test.port());
  client.send(fmt::format("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\nx", kMoreThanAddresses));
  client.end_sending();
  const HttpReply reply = client.read();
  EXPECT_EQ(reply.status, 503);
  EXPECT_CONTAINS(reply.body, "no memory for this request");
  EXPECT_EQ(post_text(test.port(), "/a", "small").body, "POST /a small") << "others are answered";
}

TEST(HttpServer, RefusesHeadersThatAreTooLarge) {
  ServerUnderTest test({.header_bytes = 2000});
  EXPECT_EQ(get(test.port(), "/a", {{"X-Long", std::string(3000, 'x')}}).status, 431);
}

TEST(HttpServer, RefusesBeforeTheBodyIsSent) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send("POST /forbidden HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(client.read().status, 403);
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST(HttpServer, LetsAClientSendTheBodyItAnnounced) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_CONTAINS(client.read_until("100 Continue\r\n\r\n"), "100 Continue");
  client.send("body");
  EXPECT_EQ(client.read().body, "POST /a body");
}

TEST(HttpServer, RejectsRequestsThatAreNotHttp) {
  ServerUnderTest test;
  for (const char* garbage :
       {"GARBAGE\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET /\x01 HTTP/1.1\r\n\r\n",
        "POST /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "POST /a HTTP/1.1\r\nContent-Length: 1x\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"}) {
    HttpClient client(test.port());
    client.send(garbage);
    EXPECT_EQ(client.read().status, 400) << garbage;
    EXPECT_TRUE(client.is_closed_by_server()) << garbage;
  }
}

// A proxy that trusts one header and a server that trusts the other would see different requests.
TEST(HttpServer, RefusesRequestsWithTwoLengths) {
  ServerUnderTest test;
  for (const char* headers : {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                              "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                              "Content-Length: 5\r\nContent-Length: 6\r\n"}) {
    HttpClient client(test.port());
    client.send(std::string("POST /a HTTP/1.1\r\nHost: a\r\n") + headers +
                "\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n");
    EXPECT_EQ(client.read().status, 400) << headers;
    EXPECT_TRUE(client.is_closed_by_server()) << headers;
  }
}

TEST(HttpServer, RefusesTransferEncodingsThatItDoesNotUndo) {
  ServerUnderTest test;
  for (const char* encoding : {"xchunked", "gzip", "identity", "chunked, identity"}) {
    HttpClient client(test.port());
    client.send(std::string("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ") + encoding +
                "\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(client.read().status, 400) << encoding;
    EXPECT_TRUE(client.is_closed_by_server()) << encoding;
  }
  for (const char* encoding : {"gzip, chunked", "GZIP,chunked", "gzip\r\nTransfer-Encoding: chunked"}) {
    HttpClient client(test.port());
    client.send(std::string("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ") + encoding +
                "\r\n\r\n1\r\nx\r\n0\r\n\r\n");
    EXPECT_EQ(client.read().status, 501) << encoding;
    EXPECT_TRUE(client.is_closed_by_server()) << encoding;
  }
}

TEST(HttpServer, WantsOneHost) {
  ServerUnderTest test;
  for (const char* headers : {"", "Host: a\r\nHost: b\r\n"}) {
    HttpClient client(test.port());
    client.send(std::string("GET /a HTTP/1.1\r\n") + headers + "\r\n");
    EXPECT_EQ(client.read().status, 400) << headers;
  }
}

TEST(HttpServer, TakesTargetsWithTheirServer) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send("GET http://a:80/b?c HTTP/1.1\r\nHost: a:80\r\n\r\n");
  EXPECT_EQ(client.read().body, "GET /b?c ");
  client.send("GET http://other/b HTTP/1.1\r\nHost: a:80\r\n\r\n");
  EXPECT_EQ(client.read().status, 400);
}

// The handler decides whether a method takes a body.
TEST(HttpServer, ReadsBodiesOfAllMethods) {
  ServerUnderTest test;
  HttpClient client(test.port());
  for (const std::string method : {"GET", "PUT", "DELETE"}) {
    client.send(method + " /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    EXPECT_EQ(client.read().body, method + " /a body");
  }
  client.send("PUT /forbidden HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_EQ(client.read().status, 403);
}

TEST(HttpServer, SkipsEmptyLinesBeforeARequest) {
  ServerUnderTest test;
  HttpClient client(test.port());
  client.send("\r\n\r\n" + request_text("POST", "/a", "body"));
  EXPECT_EQ(client.read().body, "POST /a body");
  client.send("\r\n" + request_text("GET", "/b") + "\r\n");
  EXPECT_EQ(client.read().body, "GET /b ");
  client.send("\r");
  client.send("\n" + request_text("GET", "/c"));
  EXPECT_EQ(client.read().body, "GET /c ");
}

TEST(HttpServer, ListensToBothFamiliesAtTheAddressOfAll) {
  const int descriptor = socket(AF_INET6, SOCK_STREAM, 0);
  if (descriptor < 0) GTEST_SKIP() << "this machine has no IPv6";
  close(descriptor);
  const HttpHandler handler = [](const auto& exchange) {
    exchange->respond({.body = exchange->request().client, .content_type = "text/plain"});
  };
  const HttpServer server({.host = "::", .port = 0, .route = [&](const auto&) { return handler; }});
  EXPECT_EQ(get(server.port(), "/").body, "127.0.0.1");
}

TEST(HttpServer, KeepsNoEndlessExtensionsOfChunks) {
  ServerUnderTest test({.body_bytes = 1000});
  for (const char* begin : {"1;", "0\r\nX: "}) {
    HttpClient client(test.port());
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(begin + std::string(1 << 20, 'a'));
    EXPECT_EQ(client.read().status, 431) << begin;
  }
}

TEST(HttpServer, LimitsTheBodiesOfAllRequestsTogether) {
  ServerUnderTest test({.body_bytes = 1000, .all_body_bytes = 1500});
  HttpClient slow(test.port());
  slow.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf");
  while (test.server.open_requests() != 1) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(post_text(test.port(), "/a", std::string(1000, 'x')).status, 503);
  EXPECT_EQ(post_text(test.port(), "/a", std::string(400, 'x')).status, 200);
  slow.close();
  while (test.server.open_requests() != 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(post_text(test.port(), "/a", std::string(1000, 'x')).status, 200);
}

// Otherwise requests that anyone may send could use up the room for all bodies.
TEST(HttpServer, ReservesNoMoreThanAPathsOwnLimit) {
  ServerUnderTest test({.body_bytes = 1000, .all_body_bytes = 1100});
  EXPECT_EQ(post_text(test.port(), "/small", std::string(10, 'x')).status, 200);
  const HttpReply announced = post_text(test.port(), "/small", std::string(11, 'x'));
  EXPECT_EQ(announced.status, 413);
  EXPECT_CONTAINS(announced.body, "at most 10 bytes");
  EXPECT_CONTAINS(announced.body, "found 11");
  const std::string in_chunks = "POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  HttpClient large(test.port());
  large.send(in_chunks + "b\r\n" + std::string(11, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(large.read().status, 413);
  while (test.server.open_requests() != 0) std::this_thread::sleep_for(1ms);
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (std::size_t i = 0; i < 10; ++i)
    slow.emplace_back(std::make_unique<HttpClient>(test.port()))->send(in_chunks);
  while (test.server.open_requests() != slow.size()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(post_text(test.port(), "/a", std::string(1000, 'x')).status, 200);
}

TEST(HttpServer, EndsRequestsThatDoNotBecomeComplete) {
  ServerUnderTest test({.header_time = 200ms, .body_time = 200ms});
  HttpClient slow_head(test.port());
  slow_head.send("GET / HTTP/1.1\r\nHost:");
  HttpClient slow_body(test.port());
  slow_body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
  HttpClient silent(test.port());
  EXPECT_EQ(slow_head.read().status, 408);
  EXPECT_EQ(slow_body.read().status, 408);
  EXPECT_TRUE(silent.is_closed_by_server());
}

TEST(HttpServer, ClosesIdleConnections) {
  ServerUnderTest test({.idle_time = 200ms});
  HttpClient client(test.port());
  client.send(request_text("GET", "/a"));
  EXPECT_EQ(client.read().status, 200);
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST(HttpServer, ServesClientsDespiteIdleAndHalfOpenConnections) {
  ServerUnderTest test;
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(std::make_unique<HttpClient>(test.port()));
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<HttpClient>(test.port()));
    clients.back()->send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Le");
  }
  EXPECT_EQ(get(test.port(), "/a").body, "GET /a ");
}

TEST(HttpServer, TurnsConnectionsAwayBeyondItsLimit) {
  ServerUnderTest test({.connections = 2});
  HttpClient first(test.port());
  HttpClient second(test.port());
  first.send(request_text("GET", "/a"));
  second.send(request_text("GET", "/a"));
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  EXPECT_EQ(get(test.port(), "/a").status, 503);
  first.close();
  for (int i = 0; i < 1000 && test.server.connections() > 1; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(get(test.port(), "/a").status, 200);
}

TEST(HttpServer, AnswersForAHandlerThatForgetsTo) {
  ServerUnderTest test;
  EXPECT_EQ(get(test.port(), "/drop").status, 500);
}

TEST(HttpServer, NamesTheAddressThatItCannotUse) {
  ServerUnderTest test;
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { HttpServer second({.port = test.port()}); }),
                  "Address already in use");
  EXPECT_THROW(HttpServer({.host = "203.0.113.7", .port = 0}), ConfigError);
}

}  // namespace
}  // namespace tp::test
