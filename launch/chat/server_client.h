#pragma once

#include "launch/hub/http.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

struct ServedModel {
  std::string name;
  std::size_t max_length = 0;  // tokens; 0 if the server doesn't report it
};

// Asks a server with OpenAI's API. All errors are RequestErrors for the user.
class ServerClient {
 public:
  // `address` is "http://host:8080" or "http://host:8080/v1"; without a path, /v1 is added, and without a
  // scheme, http. `key` may be empty.
  ServerClient(HttpClient& http, const std::string& address, std::string key);

  std::vector<ServedModel> models();

  // Streams a chat completion and passes its chunks on. Polls `goes_on`: if it returns false, closes the
  // connection, so the server stops generating.
  void chat(const nlohmann::ordered_json& request, const std::function<void(const nlohmann::json&)>& receive,
            const std::function<bool()>& goes_on);

 private:
  // Performs a request, and turns errors of the connection into errors for the user.
  void exchange(const OutgoingRequest& request, const HttpReceiver& receiver);
  [[noreturn]] void refuse(const HttpHead& head, const std::string& body) const;

  HttpClient& http_;
  std::string address_;
  std::string key_;
};

}  // namespace tp
