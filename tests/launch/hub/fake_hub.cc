#include "tests/launch/hub/fake_hub.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::test {
namespace {

using nlohmann::json;

std::string response(const std::string& status, const std::string& fields, const std::string& body) {
  return fmt::format("{}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}", status, body.size(), fields,
                     body);
}

void answer(const WebRequest& request, const std::string& response) {
  HttpServer::send(request, "HTTP/1.1 " + response);
}

std::size_t query_number(const std::string& target, const std::string& name) {
  const std::size_t at = target.find(name + "=");
  return at == target.npos ? 0 : std::stoul(target.substr(at + name.size() + 1));
}

}  // namespace

FakeHub::FakeHub()
    : cdn_([this](const WebRequest& request) { serve_cdn(request); }),
      hub_([this](const WebRequest& request) { serve_hub(request); }) {}

void FakeHub::add(const std::string& path, const std::string& content) {
  const std::lock_guard lock(mutex_);
  files_[path] = content;
}

void FakeHub::set_fault(const std::string& path, const Fault& fault) {
  const std::lock_guard lock(mutex_);
  faults_[path] = fault;
}

void FakeHub::set_answer(const std::string& target, const std::string& response) {
  const std::lock_guard lock(mutex_);
  answers_[target] = response;
}

std::vector<SeenRequest> FakeHub::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::size_t FakeHub::count(const std::string& part) const {
  std::size_t found = 0;
  for (const SeenRequest& request : requests()) found += request.target.find(part) != std::string::npos;
  return found;
}

void FakeHub::see(const WebRequest& request, bool is_cdn) {
  const std::lock_guard lock(mutex_);
  requests_.push_back({is_cdn, request.target, request.field("authorization"), request.field("range")});
}

std::optional<Fault> FakeHub::take_fault(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = faults_.find(path);
  if (found == faults_.end() || found->second.times == 0) return std::nullopt;
  --found->second.times;
  return found->second;
}

void FakeHub::serve_hub(const WebRequest& request) {
  see(request, false);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [target, text] : answers_)
      if (request.target.starts_with(target)) return answer(request, text);
  }
  if (!token.empty() && request.field("authorization") != "Bearer " + token)
    return answer(request, response("401 Unauthorized", "X-Error-Message: who are you?\r\n", "Unauthorized"));
  const std::string api = "/api/models/" + repository;
  const std::string resolve = fmt::format("/{}/resolve/{}/", repository, kCommit);
  if (request.target == api + "/revision/main" || request.target == api + "/revision/" + kCommit ||
      request.target == api + "/revision/refs%2Fpr%2F1")
    return answer(request, response("200 OK", "", json{{"sha", kCommit}}.dump()));
  if (request.target.starts_with(api + "/revision/"))
    return answer(request, response("404 Not Found", "X-Error-Code: RevisionNotFound\r\n", "{}"));
  if (request.target.starts_with(api + "/tree/" + kCommit + "?recursive=true")) return serve_page(request);
  if (!request.target.starts_with(resolve))
    return answer(request, response("404 Not Found", "X-Error-Code: RepoNotFound\r\n", "{}"));
  const std::string path = request.target.substr(resolve.size());
  bool is_large = false;
  {
    const std::lock_guard lock(mutex_);
    is_large = files_.contains(path) && files_.at(path).size() >= large_from;
  }
  if (!is_large) return serve_file(request, path);
  answer(request, response("302 Found", "Location: " + cdn_.address() + "/cdn/" + path + "\r\n", "moved"));
}

void FakeHub::serve_cdn(const WebRequest& request) {
  see(request, true);
  serve_file(request, request.target.substr(std::string("/cdn/").size()));
}

void FakeHub::serve_page(const WebRequest& request) {
  const std::size_t first = query_number(request.target, "cursor");
  json entries = json::array();
  std::size_t index = 0;
  std::string link;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, content] : files_) {
      if (index++ < first) continue;
      if (entries.size() == page_size) {
        // The server has a different idea of its address, like behind a proxy.
        link = fmt::format("Link: <https://hub.invalid/api?recursive=true&cursor={}>; rel=\"next\"\r\n",
                           index - 1);
        break;
      }
      const HubFile file = hub_file(path, content, content.size() >= large_from);
      json entry = {{"type", "file"}, {"path", path}, {"size", content.size()}, {"oid", file.checksum}};
      if (file.kind == ChecksumKind::sha256) {
        entry["oid"] = std::string(40, 'e');
        entry["lfs"] = {{"oid", file.checksum}, {"size", content.size()}, {"pointerSize", 133}};
      }
      entries.push_back(entry);
    }
  }
  entries.push_back({{"type", "directory"}, {"path", "folder"}, {"size", 0}, {"oid", "1234"}});
  answer(request, response("200 OK", link, entries.dump()));
}

void FakeHub::serve_file(const WebRequest& request, const std::string& path) {
  std::string content;
  {
    const std::lock_guard lock(mutex_);
    if (!files_.contains(path))
      return answer(request, response("404 Not Found", "X-Error-Code: EntryNotFound\r\n", ""));
    content = files_.at(path);
  }
  const std::size_t whole = content.size();
  const std::optional<Fault> fault = take_fault(path);
  std::string status = "200 OK";
  std::string fields;
  if (fault && fault->status != 0)
    return answer(request, response(fmt::format("{} Fault", fault->status), fault->fields, "a fault"));
  if (fault && fault->is_corrupt) content.back() ^= 1;
  if (has_ranges && request.field("range").starts_with("bytes=")) {
    const std::size_t first = has_wrong_ranges ? 0 : std::stoul(request.field("range").substr(6));
    if (first >= whole) return answer(request, response("416 Range Not Satisfiable", "", ""));
    content.erase(0, first);
    status = "206 Partial Content";
    fields = fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, whole - 1, whole);
  }
  if (fault) content.resize(content.size() - fault->shorter);
  if (fault && fault->is_endless) {
    HttpServer::send(request, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    while (HttpServer::send(request, std::string(65536, 'x'))) continue;
    return;
  }
  const std::string text = "HTTP/1.1 " + response(status, fields, content);
  if (!fault || !fault->cut_after) {
    HttpServer::send(request, text);
    return;
  }
  HttpServer::send(request, text.substr(0, text.find("\r\n\r\n") + 4 + *fault->cut_after));
  if (fault->stalls) cdn_.wait_for_end(request);
  std::this_thread::sleep_for(fault->pause);
}

HubFile hub_file(const std::string& path, const std::string& content, bool is_large) {
  const ChecksumKind kind = is_large ? ChecksumKind::sha256 : ChecksumKind::git_blob;
  Checksum checksum(kind, content.size());
  checksum.add(content);
  return {path, content.size(), kind, checksum.finish()};
}

std::string some_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

}  // namespace tp::test
