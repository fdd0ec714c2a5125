// Options that decide who may use a server or a gateway.
#pragma once

#include "launch/common/option_group.h"
#include "runtime/access/access.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tp {

// Whether only programs on this machine can reach a server at the address.
bool is_loopback(const std::string& host);

// "2 API keys are valid now"
std::string valid_keys_text(std::size_t count);

struct AccessFlags {
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> cors_origins;
  std::vector<std::string> trusted_proxies;

  void add_to(const OptionGroup& group);

  bool needs_key() const { return !api_keys.empty() || !api_key_file.empty(); }
  // Reads the file of keys. Throws ConfigError.
  AccessRules rules() const;
  // Reads the file again and adds the keys from the command line. Null without a file.
  std::function<ApiKeys()> key_reader() const;

 private:
  ApiKeys keys() const;
};

}  // namespace tp
