#include "runtime/access/api_keys.h"

#include "model/files/small_file.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

namespace tp {
namespace {

constexpr std::size_t kMaxFile = std::size_t{4} << 20;  // bytes
constexpr std::size_t kMaxName = 64;                    // bytes
constexpr std::size_t kMaxKey = 1024;                   // bytes

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool is_visible(unsigned char byte) { return byte > ' ' && byte < 0x7f; }

// Names stand in logs and as labels of metrics.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && std::ranges::all_of(text, [](unsigned char byte) {
    return is_visible(byte) && byte != '"' && byte != '\\';
  });
}

bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= kMaxKey && std::ranges::all_of(text, is_visible);
}

}  // namespace

ApiKeys parse_api_keys(std::string_view text, const std::string& where) {
  ApiKeys keys;
  std::map<std::string_view, std::size_t> lines;  // by key
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t colon = line.find(':');
    const bool has_name = colon != line.npos;
    const std::string_view name = has_name ? trimmed(line.substr(0, colon)) : std::string_view();
    const std::string_view key = has_name ? trimmed(line.substr(colon + 1)) : line;
    require<ConfigError>(
        !has_name || is_name(name),
        "{}: line {}: expected a name of 1 to {} visible ASCII characters, without quotes and "
        "backslashes, before the colon, found another text",
        where, number, kMaxName);
    require<ConfigError>(
        is_key(key),
        "{}: line {}: expected name:key with a key of 1 to {} visible ASCII characters, found "
        "another text",
        where, number, kMaxKey);
    const auto [other, is_first] = lines.emplace(key, number);
    require<ConfigError>(is_first, "{}: expected each key once, found the same key in lines {} and {}", where,
                         other->second, number);
    keys.push_back({.name = std::string(name), .key = std::string(key)});
  }
  require<ConfigError>(!keys.empty(), "{}: expected one name:key per line, found none", where);
  return keys;
}

ApiKeys read_api_keys(const std::filesystem::path& file) {
  const std::string where = file.string() + " of --api-key-file";
  return parse_api_keys(small_file_text(file, where, kMaxFile), where);
}

std::optional<std::string> name_of_key(const ApiKeys& keys, std::string_view key) {
  const ApiKey* found = nullptr;
  for (const ApiKey& each : keys) {
    if (equal_in_constant_time(key, each.key)) found = &each;
  }
  return found == nullptr ? std::nullopt : std::optional(found->name);
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

}  // namespace tp
