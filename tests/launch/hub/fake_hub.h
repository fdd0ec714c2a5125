// A small imitation of the Hugging Face Hub: its API, large files on another server, and faults of networks
// and servers.
#pragma once

#include "launch/hub/hub_file.h"
#include "tests/launch/hub/http_server.h"

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tp::test {

// A fault while a file is fetched.
struct Fault {
  int times = 1;                           // number of affected requests; -1: all
  int status = 0;                          // status instead of the content
  std::string fields{};                    // fields of the response, each with "\r\n"
  std::optional<std::size_t> cut_after{};  // bytes of the announced response before the end
  bool stalls = false;                     // stalls after these bytes instead of closing the connection
  std::chrono::milliseconds pause{0};      // pause after these bytes, before the connection closes
  std::size_t shorter = 0;                 // how many bytes fewer are announced and sent
  bool is_corrupt = false;                 // the last byte is wrong
  bool is_endless = false;                 // no length, and bytes until the client closes the connection
};

struct SeenRequest {
  bool is_cdn = false;
  std::string target;
  std::string authorization;
  std::string range;
};

class FakeHub {
 public:
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  FakeHub();

  std::string endpoint() const { return hub_.address(); }

  // Adds a file of the repository "org/name". Files of at least `large_from` bytes are LFS files on the other
  // server.
  void add(const std::string& path, const std::string& content);
  void set_fault(const std::string& path, const Fault& fault);
  // Replaces the response to requests whose target begins with this text: a whole response after "HTTP/1.1 ".
  void set_answer(const std::string& target, const std::string& response);

  std::vector<SeenRequest> requests() const;
  // Returns the number of requests whose target contains this text.
  std::size_t count(const std::string& part) const;

  // Set these before the first request.
  std::size_t large_from = 10'000;
  std::size_t page_size = 1000;
  bool has_ranges = true;
  bool has_wrong_ranges = false;  // sends ranges that were not requested
  std::string token{};            // required token; otherwise status 401
  std::string repository = "org/name";

 private:
  void serve_hub(const WebRequest& request);
  void serve_cdn(const WebRequest& request);
  void serve_page(const WebRequest& request);
  void serve_file(const WebRequest& request, const std::string& path);
  void see(const WebRequest& request, bool is_cdn);
  std::optional<Fault> take_fault(const std::string& path);

  mutable std::mutex mutex_;
  std::map<std::string, std::string> files_;
  std::map<std::string, Fault> faults_;
  std::map<std::string, std::string> answers_;
  std::vector<SeenRequest> requests_;
  HttpServer cdn_;  // last, because their threads use the other members
  HttpServer hub_;
};

// Returns the listing's description of a file with this content.
HubFile hub_file(const std::string& path, const std::string& content, bool is_large);

// Bytes that differ from place to place.
std::string some_bytes(std::size_t size);

}  // namespace tp::test
