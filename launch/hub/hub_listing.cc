#include "launch/hub/hub_listing.h"

#include "launch/hub/hub_name.h"
#include "launch/hub/url.h"
#include "model/files/printable.h"
#include "model/files/strict_json.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestDocument = 16 << 20;
constexpr std::size_t kMaxFiles = 100'000;
constexpr std::size_t kMaxPages = 200;  // pages of a thousand files
constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 50;
constexpr std::size_t kSha1Digits = 40;
constexpr std::size_t kSha256Digits = 64;

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Reads a document of the server. Its errors begin with `what`.
class Reader {
 public:
  Reader(const std::string& what, const std::string& url) : what_(what), url_(url) {}

  [[noreturn]] void fail(const std::string& expected, const std::string& found) const {
    throw_error<DownloadError>("{}: expected {} from {}, found {}; check HF_ENDPOINT", what_, expected,
                               printable(url_), found);
  }

  json parse(const std::string& text) const {
    try {
      return parse_strict_json(text);
    } catch (const JsonError& error) {
      fail("JSON", error.what());
    }
  }

  std::string string(const json& object, const char* key) const {
    if (!object.is_object()) fail("a JSON object", object.type_name());
    const auto member = object.find(key);
    if (member == object.end() || !member->is_string()) fail(fmt::format("a text '{}'", key), "none");
    return member->get<std::string>();
  }

  std::string hex(const json& object, const char* key, std::size_t digits) const {
    const std::string text = string(object, key);
    if (!is_hex(text, digits)) fail(fmt::format("{} hexadecimal digits '{}'", digits, key), printable(text));
    return text;
  }

  std::uint64_t size(const json& object) const {
    const auto member = object.find("size");
    if (member == object.end() || !member->is_number_unsigned() ||
        member->get<std::uint64_t>() > kLargestFile)
      fail(fmt::format("a size of at most {} bytes", kLargestFile), "another value");
    return member->get<std::uint64_t>();
  }

 private:
  const std::string& what_;
  const std::string& url_;
};

HubFile file_of(const json& entry, const Reader& reader) {
  HubFile file{.path = reader.string(entry, "path")};
  if (!is_safe_path(file.path))
    reader.fail("names of files within the repository", "\"" + printable(file.path) + "\"");
  const auto lfs = entry.find("lfs");
  const bool is_large = lfs != entry.end() && !lfs->is_null();
  // For a large file, `oid` is the hash of git's pointer file.
  file.kind = is_large ? ChecksumKind::sha256 : ChecksumKind::git_blob;
  file.checksum = is_large ? reader.hex(*lfs, "oid", kSha256Digits) : reader.hex(entry, "oid", kSha1Digits);
  file.size = reader.size(is_large ? *lfs : entry);
  return file;
}

// Returns the query of the next page, from `<https://host/path?QUERY>; rel="next"`, or an empty text. We keep
// the rest of our own address, so that no server can redirect us, or the token, elsewhere.
std::string next_query(const HttpHead& head) {
  const std::string link = head.field("link");
  const std::size_t end = link.find(">; rel=\"next\"");
  if (end == link.npos) return {};
  const std::size_t begin = link.rfind('<', end);
  const std::size_t query = begin == link.npos ? link.npos : link.find('?', begin);
  return query >= end ? std::string() : link.substr(query, end - query);
}

std::string commit_of(HubClient& client, const HubPurpose& purpose, const std::string& revision) {
  const std::string url =
      client.url(fmt::format("/api/models/{}/revision/{}", purpose.repository, escaped_segment(revision)));
  const Reader reader(purpose.what, url);
  return reader.hex(reader.parse(client.read(purpose, url, kLargestDocument).text), "sha", kSha1Digits);
}

}  // namespace

HubListing list_repository(HubClient& client, const std::string& repository, const std::string& revision) {
  const HubPurpose purpose{fmt::format("cannot list {}", repository), repository};
  HubListing listing{.commit = commit_of(client, purpose, revision)};
  const std::string tree = client.url(fmt::format("/api/models/{}/tree/{}", repository, listing.commit));
  std::set<std::string> paths;
  std::string query = "?recursive=true";
  for (std::size_t page = 0; !query.empty(); ++page) {
    const std::string url = tree + query;
    const Reader reader(purpose.what, url);
    if (page == kMaxPages) reader.fail(fmt::format("at most {} pages", kMaxPages), "another one");
    const HubClient::Document document = client.read(purpose, url, kLargestDocument);
    const json entries = reader.parse(document.text);
    if (!entries.is_array()) reader.fail("a JSON list", entries.type_name());
    for (const json& entry : entries) {
      if (reader.string(entry, "type") != "file") continue;
      listing.files.push_back(file_of(entry, reader));
      if (!paths.insert(listing.files.back().path).second)
        reader.fail("every file once", printable(listing.files.back().path) + " twice");
      if (listing.files.size() > kMaxFiles) reader.fail(fmt::format("at most {} files", kMaxFiles), "more");
    }
    query = next_query(document.head);
  }
  std::sort(listing.files.begin(), listing.files.end(),
            [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  return listing;
}

}  // namespace tp
