// tp-infer serve, run like a user runs it.
#pragma once

#include "tests/launch/program.h"
#include "tests/serve/http_client.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace tp::test {

// A chat template for the demo model.
inline const std::string kTemplate =
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

class ServedProgram {
 public:
  // Starts the server on a free port and waits until it accepts requests.
  explicit ServedProgram(std::size_t ranks, Arguments arguments = {}, const StartOptions& options = {});

  std::uint16_t port() const { return port_; }
  Process& process() { return process_; }

  HttpReply get(const std::string& target, const Headers& headers = {}) const {
    return test::get(port_, target, headers);
  }
  HttpReply post(const std::string& target, const nlohmann::json& body, const Headers& headers = {}) const {
    return test::post(port_, target, body, headers);
  }
  nlohmann::json status() const { return get("/v1/status").json(); }
  // Waits until the engine has no running or waiting requests, and returns whether it has none.
  bool is_idle(double seconds = 30) const;
  // Returns a metric's value, summed over its labels.
  double metric(const std::string& name) const;

  // Ends the server like a user does, and expects the exit status 0.
  void end();

 private:
  Process process_;
  std::uint16_t port_ = 0;
};

}  // namespace tp::test
