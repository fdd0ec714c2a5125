#include "launch/options/access_flags.h"

#include <CLI/CLI.hpp>

namespace tp {

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
      .add("--allowed-hosts", allowed_hosts, "NAME,...", CLI::Validator(),
           "Other host names of this server, besides localhost and this machine's name and addresses; "
           "* allows any")
      ->delimiter(',');
  group
      .add("--cors-origins", cors_origins, "ORIGIN,...", CLI::Validator(),
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
  return {.api_keys = keys(),
          .hosts = allowed_hosts,
          .origins = cors_origins,
          .proxies = TrustedProxies(trusted_proxies)};
}

std::function<ApiKeys()> AccessFlags::key_reader() const {
  if (api_key_file.empty()) return {};
  return [flags = *this] { return flags.keys(); };
}

}  // namespace tp
