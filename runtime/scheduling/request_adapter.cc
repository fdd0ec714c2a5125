#include "runtime/scheduling/request_adapter.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/ranges.h>

namespace tp {
namespace {

// No salt of a request without an adapter begins with this text.
constexpr std::string_view kSaltOfAdapter{"\0adapter ", 9};

std::string adapter_salt(std::string_view identity, std::string_view salt) {
  return fmt::format("{}{}{}{}", kSaltOfAdapter, identity, '\0', salt);
}

std::string adapter_names(const std::vector<AdapterInfo>& adapters) {
  constexpr std::size_t kMax = 16;
  std::vector<std::string> names;
  for (const AdapterInfo& adapter : adapters) {
    if (names.size() < kMax) names.push_back(adapter.name);
  }
  if (adapters.size() > kMax) names.emplace_back("...");
  return names.empty() ? "none, because the engine has none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::size_t choose_adapter(const LeaderOptions& options, Request& request) {
  const std::vector<AdapterInfo>& adapters = options.adapters;
  const std::optional<std::string>& chosen =
      request.adapter ? request.adapter : options.engine.default_adapter;
  require<RequestError>(
      chosen || adapters.empty(),
      "cannot choose among several adapters: expected an `adapter`, found none; name one of {}",
      adapter_names(adapters));
  const std::string name = chosen.value_or("");
  if (name.empty()) {
    require<RequestError>(
        adapters.empty() || !adapters.front().is_exclusive,
        "cannot use the model alone: expected the adapter {}, which replaces tensors of the model "
        "(modules_to_save); choose it, or leave it out of the engine",
        adapter_names(adapters));
    if (request.cache_salt.starts_with(kSaltOfAdapter))
      request.cache_salt = adapter_salt({}, request.cache_salt);
    return 0;
  }
  const auto found = std::ranges::find(adapters, name, &AdapterInfo::name);
  require<RequestError>(found != adapters.end(), "there is no adapter {}: expected {}; choose another one",
                        printable(name), adapter_names(adapters));
  request.cache_salt = adapter_salt(found->identity, request.cache_salt);
  return static_cast<std::size_t>(found - adapters.begin()) + 1;
}

}  // namespace tp
