// A client of a FakeHub. Instead of sleeping, it remembers the reasons.
#pragma once

#include "launch/hub/curl_http.h"
#include "launch/hub/hub_client.h"
#include "tests/launch/hub/fake_hub.h"

#include <chrono>
#include <string>
#include <vector>

namespace tp::test {

struct HubUnderTest {
  FakeHub hub;
  CurlHttp http{std::chrono::seconds(1)};
  std::string token;
  std::vector<std::chrono::seconds> pauses{};
  std::vector<std::string> notes{};

  HubClient client() {
    return {http,
            {.endpoint = hub.endpoint(), .token = token},
            [this](std::chrono::seconds pause) { pauses.push_back(pause); },
            [this](const std::string& note) { notes.push_back(note); }};
  }
};

}  // namespace tp::test
