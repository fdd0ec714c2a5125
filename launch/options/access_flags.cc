#include "launch/options/access_flags.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tp {
namespace {

bool contains_any(std::string_view text, std::string_view characters) {
  return text.find_first_of(characters) != std::string_view::npos;
}

std::string shown_access_value(const std::string& text) {
  return text.empty() ? "an empty value; is a variable unset?" : text;
}

CLI::Validator host_name() {
  const auto check = [](std::string& text) -> std::string {
    const bool is_name = !text.empty() && !contains_any(text, "/* \t");
    return is_name || text == "*"
               ? ""
               : fmt::format("expected a host's name, as in llm.example.com, or *, found {}",
                             shown_access_value(text));
  };
  return CLI::Validator(check, "");
}

std::string without_slash(std::string origin) {
  if (origin.ends_with('/')) origin.pop_back();
  return origin;
}

// Browsers send the origin "null" for pages without one, such as files.
CLI::Validator origin_name() {
  const auto check = [](std::string& text) -> std::string {
    const std::string origin = without_slash(text);
    const std::size_t scheme = origin.find("://");
    const bool is_origin = scheme != std::string::npos && scheme != 0 && scheme + 3 < origin.size() &&
                           !contains_any(origin.substr(scheme + 3), "/?#@* \t") &&
                           !contains_any(origin.substr(0, scheme), " \t");
    return is_origin || text == "*" || text == "null"
               ? ""
               : fmt::format(
                     "expected SCHEME://HOST or SCHEME://HOST:PORT, as in https://chat.example.com, "
                     "or *, found {}",
                     shown_access_value(text));
  };
  return CLI::Validator(check, "");
}

}  // namespace

std::string valid_keys_text(std::size_t count) {
  return fmt::format("{} valid now", count == 1 ? "1 API key is" : fmt::format("{} API keys are", count));
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

void AccessFlags::add_to(const OptionGroup& group) {
  group
      .add("--api-key", api_keys, "KEY", not_empty("a key"),
           "A key that clients must send; may be given several times. Other users of this machine can "
           "read it in the process list")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  group.add_file("--api-key-file", api_key_file,
                 "A file with one name:key per line; SIGHUP reads it again. The log and the metrics contain "
                 "the names");
  group
      .add("--allowed-hosts", allowed_hosts, "NAME,...", host_name(),
           "Other host names of this server, besides localhost and this machine's name and addresses; "
           "* allows any")
      ->delimiter(',');
  group
      .add("--cors-origins", cors_origins, "ORIGIN,...", origin_name(),
           "Web sites that may use this server, besides localhost: https://chat.example.com; * allows all")
      ->delimiter(',');
  group
      .add("--trusted-proxies", trusted_proxies, "ADDRESS,...", CLI::Validator(),
           "Proxies whose X-Forwarded-For names the client in the log: 10.0.0.1,10.1.0.0/16")
      ->delimiter(',');
}

ApiKeys AccessFlags::keys() const {
  ApiKeys keys = api_key_file.empty() ? ApiKeys{} : read_api_keys(api_key_file);
  for (const std::string& key : api_keys) keys.push_back({.key = key});
  return keys;
}

AccessRules AccessFlags::rules() const {
  std::vector<std::string> origins = cors_origins;
  std::ranges::transform(origins, origins.begin(), without_slash);
  return {.api_keys = keys(),
          .hosts = allowed_hosts,
          .origins = std::move(origins),
          .proxies = TrustedProxies(trusted_proxies)};
}

std::function<ApiKeys()> AccessFlags::key_reader() const {
  if (api_key_file.empty()) return {};
  return [flags = *this] { return flags.keys(); };
}

}  // namespace tp
