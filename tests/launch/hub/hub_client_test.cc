// Requests to the Hub and its listings: redirects, the token, rejections, and lying servers.

#include "launch/hub/hub_listing.h"
#include "launch/hub/hub_settings.h"
#include "launch/hub/url.h"
#include "tests/environment_variable.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/launch/hub/hub_under_test.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::test {
namespace {

using nlohmann::json;

constexpr const char* kRevision = "/api/models/org/name/revision/main";
constexpr const char* kTree = "/api/models/org/name/tree/";

HubListing list(HubUnderTest& test, const std::string& revision = "main") {
  HubClient client = test.client();
  return list_repository(client, "org/name", revision);
}

std::string list_error(HubUnderTest& test, const std::string& revision = "main") {
  return error_of<DownloadError>([&] { list(test, revision); });
}

// Returns the error for a listing with these entries.
std::string entry_error(const json& entries) {
  HubUnderTest test;
  const std::string body = entries.dump();
  test.hub.set_answer(
      kTree, fmt::format("200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", body.size(), body));
  return list_error(test);
}

std::string answer(const std::string& status, const std::string& fields = {}) {
  return status + "\r\nContent-Length: 0\r\nConnection: close\r\n" + fields + "\r\n";
}

TEST(HubListing, HasAllPages) {
  HubUnderTest test;
  test.hub.page_size = 2;
  for (const char* path : {"a", "b", "c/d", "e", "f.gguf"}) test.hub.add(path, some_bytes(20'000));
  test.hub.add("config.json", "{}");
  const HubListing listing = list(test);
  EXPECT_EQ(listing.commit, FakeHub::kCommit);
  ASSERT_EQ(listing.files.size(), 6U);
  EXPECT_EQ(listing.files[2].path, "c/d");
  EXPECT_EQ(listing.files[2].size, 20'000U);
  EXPECT_EQ(listing.files[2].checksum, hub_file("", some_bytes(20'000), true).checksum);
  EXPECT_EQ(listing.find("config.json")->kind, ChecksumKind::git_blob);
  EXPECT_EQ(listing.find("config.json")->checksum,
            "9e26dfeeb6e641a33dae4961196235bdb965b21b");  // git hash-object
  EXPECT_EQ(test.hub.count(kTree), 3U);
}

TEST(HubListing, RequestsAPullRequestAsOneSegment) {
  HubUnderTest test;
  EXPECT_EQ(list(test, "refs/pr/1").commit, FakeHub::kCommit);
}

TEST(HubListing, RejectsHostileResponses) {
  const auto entry = [](const json& changes) {
    json value = {{"type", "file"}, {"path", "a"}, {"size", 1}, {"oid", std::string(40, 'a')}};
    value.update(changes);
    return json::array({value});
  };
  for (const char* path : {"../a", "/etc/passwd", "a/../../b", "a\x1b[2Jb", "a\nb", ""})
    EXPECT_CONTAINS(entry_error(entry({{"path", path}})), "expected names of files within the repository");
  EXPECT_CONTAINS(entry_error(entry({{"path", "a\x1b[2Jb"}})), "a?[2Jb");
  EXPECT_CONTAINS(entry_error(entry({{"oid", "../../x"}})), "expected 40 hexadecimal digits 'oid'");
  EXPECT_CONTAINS(entry_error(entry({{"lfs", {{"oid", "abc"}, {"size", 1}}}})),
                  "expected 64 hexadecimal digits 'oid'");
  for (const json& size : {json(-1), json("1"), json(1e300), json(std::uint64_t{1} << 60)})
    EXPECT_CONTAINS(entry_error(entry({{"size", size}})), "expected a size of at most");
  EXPECT_CONTAINS(entry_error(json::object()), "expected a JSON list");
  EXPECT_CONTAINS(entry_error(json::array({1})), "expected a JSON object");
  EXPECT_CONTAINS(entry_error(json::array({entry(json::object())[0], entry(json::object())[0]})),
                  "found a twice");
}

TEST(HubListing, RejectsAnInvalidCommit) {
  HubUnderTest test;
  test.hub.set_answer(kRevision, "200 OK\r\nConnection: close\r\n\r\n{\"sha\": \"../../../x\"}");
  EXPECT_CONTAINS(list_error(test), "expected 40 hexadecimal digits 'sha'");
}

TEST(HubListing, RefusesEndlessPagesAndPagesWithoutEnd) {
  HubUnderTest pages;
  pages.hub.set_answer(
      kTree, "200 OK\r\nConnection: close\r\nLink: <x?recursive=true&cursor=7>; rel=\"next\"\r\n\r\n[]");
  EXPECT_CONTAINS(list_error(pages), "expected at most 200 pages");
  HubUnderTest page;
  page.hub.set_answer(kTree, "200 OK\r\nConnection: close\r\n\r\n" + std::string(17 << 20, ' '));
  EXPECT_CONTAINS(list_error(page), "expected at most 16777216 bytes");
}

TEST(HubListing, SaysWhenTheAnswerIsAWebPage) {
  HubUnderTest test;
  test.hub.set_answer(kRevision, "200 OK\r\nConnection: close\r\n\r\n<html>Log in to this network</html>");
  EXPECT_CONTAINS(list_error(test), "cannot list org/name: expected JSON from " + test.hub.endpoint());
}

TEST(HubClient, GivesTheTokenToTheHubOnly) {
  HubUnderTest test;
  test.token = test.hub.token = "hf_secret";
  const std::string content = some_bytes(30'000);
  test.hub.add("weights", content);
  list(test);
  HubClient client = test.client();
  const std::string url = client.url(std::string("/org/name/resolve/") + FakeHub::kCommit + "/weights");
  EXPECT_EQ(client.read({"cannot fetch", "org/name"}, url, 1 << 20).text, content);
  std::size_t at_cdn = 0;
  for (const SeenRequest& request : test.hub.requests()) {
    EXPECT_EQ(request.authorization, request.is_cdn ? "" : "Bearer hf_secret") << request.target;
    at_cdn += request.is_cdn ? 1 : 0;
  }
  EXPECT_EQ(at_cdn, 1U);
}

TEST(HubClient, FollowsRedirectsWithinReason) {
  HubUnderTest test;
  test.hub.set_answer(kRevision, answer("307 Temporary Redirect", "Location: /moved\r\n"));
  test.hub.set_answer(
      "/moved", "200 OK\r\nConnection: close\r\n\r\n{\"sha\": \"" + std::string(FakeHub::kCommit) + "\"}");
  EXPECT_EQ(list(test).commit, FakeHub::kCommit);
  test.hub.set_answer("/moved", answer("302 Found", "Location: /moved\r\n"));
  EXPECT_CONTAINS(list_error(test), "expected at most 10 redirects, found another one");
  for (const char* target : {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x"}) {
    test.hub.set_answer("/moved", answer("302 Found", fmt::format("Location: {}\r\n", target)));
    EXPECT_CONTAINS(list_error(test), "expected http:// or https://");
  }
}

TEST(HubClient, ExplainsRefusals) {
  const auto error = [](const std::string& response, const std::string& token) {
    HubUnderTest test;
    test.token = token;
    test.hub.set_answer(kRevision, response);
    return list_error(test);
  };
  const std::string gated =
      answer("403 Forbidden", "X-Error-Code: GatedRepo\r\nX-Error-Message: ask \x1b[31mMeta\r\n");
  EXPECT_CONTAINS(error(gated, ""),
                  "found status 403 (ask ?[31mMeta); accept its conditions at http://127.0.0.1:");
  EXPECT_CONTAINS(error(gated, ""), "/org/name, and give a token of that account");
  EXPECT_CONTAINS(error(gated, "hf_secret"), "check that the token in HF_TOKEN is of that account");
  EXPECT_CONTAINS(error(answer("401 Unauthorized"), ""), "if it is private, give a token in HF_TOKEN");
  EXPECT_CONTAINS(error(answer("401 Unauthorized"), "hf_secret"), "whether the token is valid");
  EXPECT_CONTAINS(error(answer("404 Not Found"), ""),
                  "expected a repository of that name with that revision");
  EXPECT_CONTAINS(error(answer("418 Teapot"), ""), "found status 418; check HF_ENDPOINT");
  for (const std::string& text : {error(gated, "hf_secret"), error(answer("401 Unauthorized"), "hf_secret")})
    EXPECT_EQ(text.find("hf_secret"), std::string::npos) << text;
  HubUnderTest test;
  EXPECT_CONTAINS(list_error(test, "no-such"),
                  "expected that revision, found status 404; check the name and --revision");
}

TEST(HubClient, TriesAgainWhenTheServerIsBusy) {
  HubUnderTest test;
  test.hub.set_answer(kRevision, answer("503 Service Unavailable"));
  EXPECT_CONTAINS(list_error(test), "expected an answer within 5 attempts, found: status 503");
  using std::chrono::seconds;
  EXPECT_EQ(test.pauses, (std::vector{seconds(1), seconds(2), seconds(4), seconds(8)}));
  EXPECT_EQ(test.hub.count(kRevision), 5U);
  EXPECT_CONTAINS(test.notes.front(), "status 503; next attempt in 1 s");

  HubUnderTest limited;
  limited.hub.set_answer(kRevision, answer("429 Too Many Requests", "Retry-After: 17\r\n"));
  EXPECT_CONTAINS(list_error(limited), "found: status 429, too many requests");
  EXPECT_EQ(limited.pauses.front(), seconds(17));
  limited.hub.set_answer(kRevision, answer("429 Too Many Requests", "Retry-After: 3600\r\n"));
  EXPECT_CONTAINS(list_error(limited), "a server that asks for a pause of 3600 s");
}

TEST(HubClient, DoesNotRetryWithoutAServer) {
  CurlHttp http(std::chrono::seconds(2));
  std::string endpoint;
  {
    const HttpServer ended([](const WebRequest&) {});
    endpoint = ended.address();
  }
  HubClient client(
      http, {.endpoint = endpoint}, [](auto) { ADD_FAILURE() << "a pause"; }, [](const auto&) {});
  EXPECT_CONTAINS(error_of<DownloadError>([&] { list_repository(client, "org/name", "main"); }),
                  "cannot list org/name: expected an answer from " + endpoint + ", found: ");
}

// An HttpClient with scripted responses. HTTPS needs no certificates here.
struct ScriptedHttp : HttpClient {
  std::vector<std::string> urls{};
  std::vector<std::string> tokens{};
  std::map<std::string, std::string> redirects{};

  void exchange(const OutgoingRequest& request, const HttpReceiver& receiver) override {
    urls.push_back(request.url);
    tokens.push_back(request.token);
    const auto target = redirects.find(request.url);
    if (target == redirects.end()) {
      receiver.head({200, {}});
    } else {
      receiver.head({302, {{"location", target->second}}});
    }
  }
};

TEST(HubClient, NeverSendsTheTokenToOtherOrigins) {
  const auto tokens = [](const std::string& endpoint, const std::string& target) {
    ScriptedHttp http;
    HubClient client(
        http, {.endpoint = endpoint, .token = "t"}, [](auto) {}, [](const auto&) {});
    http.redirects[client.url("/a")] = target;
    client.get({"cannot", "o/n"}, client.url("/a"), 0,
               {[](auto&) { return true; }, [](auto) { return true; }});
    return http.tokens;
  };
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(tokens("https://hub.example", "/b"), (Tokens{"t", "t"}));
  EXPECT_EQ(tokens("https://hub.example", "https://HUB.example:443/b"), (Tokens{"t", "t"}));
  EXPECT_EQ(tokens("https://hub.example", "//hub.example/b"), (Tokens{"t", "t"}));
  for (const char* other : {"https://hub.example:8443/b", "https://cdn.hub.example/b", "//evil.example/b",
                            "https://hub.example@evil.example/b", "https://hub.example.evil.example/b"})
    EXPECT_EQ(tokens("https://hub.example", other), (Tokens{"t", ""})) << other;
  EXPECT_EQ(tokens("http://hub.example", "https://hub.example/b"), (Tokens{"t", ""}));
  EXPECT_CONTAINS(
      error_of<DownloadError>([&] { tokens("https://hub.example", "http://hub.example/b"); }),
      "expected a redirect to https://, found one from https://hub.example/a to http://hub.example/b");
}

TEST(HubSettings, MatchHuggingFacesTools) {
  const TemporaryDirectory home;
  const EnvironmentVariable hf_home("HF_HOME", home.path());
  {
    home.write("token", " hf_stored\n");
    const EnvironmentVariable endpoint("HF_ENDPOINT", "https://mirror.example/hub//");
    const EnvironmentVariable timeout("HF_HUB_DOWNLOAD_TIMEOUT", "7");
    const HubSettings settings = hub_settings();
    EXPECT_EQ(settings.endpoint, "https://mirror.example/hub");
    EXPECT_EQ(settings.token, "hf_stored");
    EXPECT_EQ(settings.patience, std::chrono::seconds(7));
    EXPECT_EQ(hub_cache(), home.path() / "hub");
  }
  const EnvironmentVariable token("HF_TOKEN", "hf_given");
  EXPECT_EQ(hub_settings().token, "hf_given");
  EXPECT_EQ(hub_settings().endpoint, "https://huggingface.co");
  const EnvironmentVariable cache("HF_HUB_CACHE", "~/models");
  EXPECT_EQ(hub_cache(), std::filesystem::path(std::getenv("HOME")) / "models");
}

TEST(HubSettings, RejectImpossibleValues) {
  const auto error = [](const char* name, const char* value) {
    const EnvironmentVariable variable(name, value);
    return error_of<DownloadError>([] { hub_settings(); });
  };
  EXPECT_CONTAINS(error("HF_ENDPOINT", "huggingface.co"),
                  "expected an address such as https://huggingface.co");
  EXPECT_CONTAINS(error("HF_HUB_DOWNLOAD_TIMEOUT", "soon"), "expected whole seconds");
  EXPECT_CONTAINS(error("HF_HUB_OFFLINE", "1"), "found HF_HUB_OFFLINE=1; unset it");
  const std::string injection = error("HF_TOKEN", "hf_x\r\nHost: evil");
  EXPECT_CONTAINS(injection, "check HF_TOKEN");
  EXPECT_EQ(injection.find("hf_x"), std::string::npos);
}

TEST(Checksum, MatchesOtherPrograms) {
  const auto checksum = [](ChecksumKind kind, std::string_view text) {
    Checksum sum(kind, text.size());
    sum.add(text.substr(0, 2));
    sum.add(text.substr(2));
    return sum.finish();
  };
  EXPECT_EQ(checksum(ChecksumKind::sha256, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(checksum(ChecksumKind::git_blob, "hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(Url, IsEscaped) {
  EXPECT_EQ(escaped("a b/c#d?e%f.gguf"), "a%20b/c%23d%3Fe%25f.gguf");
  EXPECT_EQ(escaped_segment("refs/pr/1"), "refs%2Fpr%2F1");
}

}  // namespace
}  // namespace tp::test
