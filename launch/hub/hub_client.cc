#include "launch/hub/hub_client.h"

#include "launch/hub/url.h"
#include "model/files/parse_number.h"
#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <utility>

namespace tp {
namespace {

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// "1.5" and dates count as absent.
std::optional<std::chrono::seconds> retry_after(const HttpHead& head) {
  const auto seconds = parse_number<int>(head.field("retry-after"));
  if (!seconds || *seconds < 0) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

// Returns the server's own message, which may contain anything.
std::string said_by_server(const HttpHead& head) {
  const std::string message = head.field("x-error-message");
  return message.empty() ? "" : fmt::format(" ({})", printable(message, 200));
}

}  // namespace

HubClient::HubClient(HttpClient& http, HubSettings settings, Retries::Sleep sleep, Retries::Notify notify)
    : http_(http),
      settings_(std::move(settings)),
      origin_(origin_of(settings_.endpoint)),
      sleep_(std::move(sleep)),
      notify_(std::move(notify)) {}

void HubClient::get(const HubPurpose& purpose, const std::string& url, std::uint64_t first_byte,
                    const HttpReceiver& receiver) {
  constexpr int kMaxRedirects = 10;
  std::string next = url;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    const std::string target = get_once(purpose, next, first_byte, receiver);
    if (target.empty()) return;
    const std::string address = redirected(next, target);
    require<DownloadError>(!next.starts_with("https:") || address.starts_with("https:"),
                           "{}: expected a redirect to https://, found one from {} to {}; check HF_ENDPOINT",
                           purpose.what, printable(next), printable(address));
    next = address;
  }
  throw_error<DownloadError>("{}: expected at most {} redirects, found another one, to {}; check HF_ENDPOINT",
                             purpose.what, kMaxRedirects, printable(next));
}

std::string HubClient::get_once(const HubPurpose& purpose, const std::string& url, std::uint64_t first_byte,
                                const HttpReceiver& receiver) {
  constexpr std::size_t kMaxIgnored = 64 << 10;  // bytes of the body of a redirect or an error
  const bool is_own = origin_of(url) == origin_;
  HttpHead head;
  bool is_content = false;
  std::size_t ignored = 0;
  const auto on_head = [&](const HttpHead& found) {
    head = found;
    was_reached_ = true;
    is_content = head.status == 200 || (first_byte > 0 && (head.status == 206 || head.status == 416));
    return is_content ? receiver.head(head) : true;
  };
  const auto on_body = [&](std::string_view bytes) {
    if (is_content) return receiver.body(bytes);
    ignored += bytes.size();
    return ignored <= kMaxIgnored;
  };
  try {
    http_.exchange({.url = url, .token = is_own ? settings_.token : "", .first_byte = first_byte},
                   {on_head, on_body});
  } catch (const ConnectionError& error) {
    // The endpoint is wrong or there is no network. An immediate error is better than retries.
    if (was_reached_) throw;
    throw_error<DownloadError>(
        "{}: expected an answer from {}, found: {}; check the network, HF_ENDPOINT and "
        "https_proxy",
        purpose.what, settings_.endpoint, error.what());
  }
  if (is_content) return {};
  if (is_redirect(head.status) && !head.field("location").empty()) return head.field("location");
  if (head.status == 408 || head.status == 429 || head.status >= 500) {
    throw TransientError(fmt::format("status {}{}{}", head.status,
                                     head.status == 429 ? ", too many requests" : "", said_by_server(head)),
                         retry_after(head));
  }
  refuse(purpose, url, head);
}

void HubClient::refuse(const HubPurpose& purpose, const std::string& url, const HttpHead& head) const {
  const std::string page = fmt::format("{}/{}", settings_.endpoint, purpose.repository);
  const std::string code = head.field("x-error-code");
  const std::string found = fmt::format("status {}{}", head.status, said_by_server(head));
  const bool has_token = !settings_.token.empty();
  if (code == "GatedRepo" || (head.status == 403 && code != "RepoNotFound")) {
    throw_error<DownloadError>(
        "{}: expected access to the repository, found {}; accept its conditions at {}, and {}", purpose.what,
        found, page,
        has_token ? "check that the token in HF_TOKEN is of that account and may read it"
                  : "give a token of that account (https://huggingface.co/settings/tokens) in HF_TOKEN");
  }
  if (head.status == 401 || code == "RepoNotFound") {
    throw_error<DownloadError>(
        "{}: expected a repository that {}, found {}; check the name at {}, and if it is private, {}",
        purpose.what, has_token ? "the token in HF_TOKEN may read" : "anyone may read", found, page,
        has_token ? "whether the token is valid and may read it" : "give a token in HF_TOKEN");
  }
  if (head.status == 404) {
    const std::string what = code == "RevisionNotFound" ? "that revision"
                             : code == "EntryNotFound"  ? "that file"
                                                        : "a repository of that name with that revision";
    throw_error<DownloadError>("{}: expected {}, found {}; check the name and --revision at {}", purpose.what,
                               what, found, page);
  }
  throw_error<DownloadError>("{}: expected the content of {}, found {}; check HF_ENDPOINT", purpose.what,
                             printable(url), found);
}

HubClient::Document HubClient::read(const HubPurpose& purpose, const std::string& url, std::size_t limit) {
  Retries attempts = retries(purpose);
  for (;;) {
    Document document;
    const auto on_head = [&](const HttpHead& head) {
      document.head = head;
      return true;
    };
    const auto on_body = [&](std::string_view bytes) {
      require<DownloadError>(document.text.size() + bytes.size() <= limit,
                             "{}: expected at most {} bytes from {}, found more; check HF_ENDPOINT",
                             purpose.what, limit, printable(url));
      document.text += bytes;
      return true;
    };
    try {
      get(purpose, url, 0, {on_head, on_body});
      return document;
    } catch (const TransientError& error) {
      attempts.wait(error);
    }
  }
}

void warn_of_shown_token(const HubSettings& settings, const Retries::Notify& notify) {
  const std::string origin = origin_of(settings.endpoint);
  const bool is_local = origin.starts_with("http://127.") || origin.starts_with("http://localhost:") ||
                        origin.starts_with("http://[::1]:");
  if (settings.token.empty() || !origin.starts_with("http://") || is_local) return;
  notify(fmt::format("the token goes to {} unencrypted; unset HF_TOKEN if it is not needed there",
                     settings.endpoint));
}

}  // namespace tp
