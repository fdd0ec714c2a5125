#include "runtime/access/trusted_proxies.h"

#include "model/files/parse_number.h"
#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstring>

#include <arpa/inet.h>

namespace tp {
namespace {

constexpr unsigned kMappedBits = 96;  // prefix of IPv4 addresses within IPv6

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// "[::1]:80" -> "::1", "10.0.0.1:80" -> "10.0.0.1": some proxies add the port.
std::string_view without_port_of(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, text.find(']') - 1);
  const std::size_t colon = text.find(':');
  return colon == text.rfind(':') ? text.substr(0, colon) : text;
}

}  // namespace

bool TrustedProxies::parse(std::string_view text, Address& address) {
  const std::string name(text.substr(0, INET6_ADDRSTRLEN));
  if (::inet_pton(AF_INET6, name.c_str(), address.data()) == 1) return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, name.c_str(), &v4) != 1) return false;
  address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  std::memcpy(address.data() + kMappedBits / 8, &v4, sizeof(v4));
  return true;
}

TrustedProxies::TrustedProxies(const std::vector<std::string>& proxies) {
  for (const std::string& proxy : proxies) {
    const std::size_t slash = proxy.find('/');
    const std::string name = proxy.substr(0, slash);
    const unsigned max = name.find(':') == name.npos ? 32 : 128;
    Network network;
    const auto bits =
        slash == proxy.npos ? std::optional<unsigned>(max) : parse_number<unsigned>(proxy.substr(slash + 1));
    require<ConfigError>(
        parse(name, network.address) && bits && *bits <= max,
        "expected an address or a network in --trusted-proxies, such as 10.0.0.1 or 10.0.0.0/8, found {}",
        printable(proxy));
    network.bits = *bits + (max == 32 ? kMappedBits : 0);
    networks_.push_back(network);
  }
}

bool TrustedProxies::contains(std::string_view text) const {
  Address address{};
  if (!parse(text, address)) return false;
  return std::ranges::any_of(networks_, [&](const Network& network) {
    for (unsigned bit = 0; bit < network.bits; ++bit) {
      const unsigned difference = address[bit / 8] ^ network.address[bit / 8];
      if ((difference >> (7 - bit % 8) & 1U) != 0) return false;
    }
    return true;
  });
}

std::string TrustedProxies::client_of(const HttpRequest& request) const {
  std::string client = request.client;
  if (!contains(client)) return client;
  std::string list;  // values of all headers, in order
  for (const auto& [name, value] : request.headers) {
    if (name == "x-forwarded-for") list += (list.empty() ? "" : ",") + value;
  }
  for (std::string_view rest = list; !rest.empty();) {
    const std::size_t comma = rest.rfind(',');
    const std::string_view text =
        without_port_of(without_blanks(comma == rest.npos ? rest : rest.substr(comma + 1)));
    Address address{};
    if (!parse(text, address)) return client;  // the last address that is known
    client = text;
    if (!contains(client) || comma == rest.npos) return client;
    rest = rest.substr(0, comma);
  }
  return client;
}

}  // namespace tp
