#include "runtime/gateway/request_members.h"

#include "model/files/percent_decoded.h"

#include <cstddef>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr std::size_t kMaxText = 4096;  // bytes of a name or a member that can matter

// Walks over JSON without checking it.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  bool is_at_end() const { return at_ >= text_.size(); }
  char next() const { return text_[at_]; }

  bool skip(char expected) {
    skip_space();
    if (is_at_end() || next() != expected) return false;
    ++at_;
    return true;
  }

  // The text with its quotes; empty without a whole text.
  std::string_view quoted() {
    skip_space();
    const std::size_t begin = at_;
    if (is_at_end() || next() != '"') return {};
    for (++at_;;) {
      const std::size_t found = text_.find('"', at_);
      at_ = found == text_.npos ? text_.size() : found + 1;
      if (found == text_.npos) return {};
      if (!is_escaped(found, begin)) return text_.substr(begin, at_ - begin);
    }
  }

  // Any value, up to the comma or bracket that follows it.
  std::string_view value() {
    skip_space();
    const std::size_t begin = at_;
    std::size_t depth = 0;
    while (!is_at_end()) {
      const char first = next();
      if (first == '"') {
        if (quoted().empty()) break;
        continue;
      }
      if (depth == 0 && (first == ',' || first == '}' || first == ']')) break;
      if (first == '{' || first == '[') ++depth;
      if (first == '}' || first == ']') --depth;
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

 private:
  // Whether an odd number of backslashes stands before a place in the text that begins at `begin`.
  bool is_escaped(std::size_t place, std::size_t begin) const {
    std::size_t first = place;
    while (first > begin && text_[first - 1] == '\\') --first;
    return (place - first) % 2 != 0;
  }

  void skip_space() {
    const std::size_t found = text_.find_first_not_of(" \t\r\n", at_);
    at_ = found == text_.npos ? text_.size() : found;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

nlohmann::json decoded(std::string_view text) {
  return text.size() <= kMaxText ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
}

}  // namespace

bool begins_object(std::string_view body) { return Scanner(body).skip('{'); }

RequestMembers members_of(std::string_view body) {
  RequestMembers members;
  Scanner scanner(body);
  if (!scanner.skip('{')) return members;
  do {
    const std::string_view quoted = scanner.quoted();
    if (quoted.empty() || !scanner.skip(':')) return members;
    const nlohmann::json name = decoded(quoted);  // null if it is longer than every known name
    if (name.is_discarded()) return members;
    const std::string_view text = scanner.value();
    if (name == "model") {
      const nlohmann::json value = decoded(text);
      members.model = value.is_string() ? value.get<std::string>() : "";
    } else if (name == "stream") {
      members.stream = decoded(text) == true;
    }
  } while (scanner.skip(','));
  return members;
}

std::string query_value(std::string_view target, std::string_view name) {
  std::size_t at = target.find('?');
  while (at != target.npos) {
    const std::string_view rest = target.substr(at + 1);
    at = target.find('&', at + 1);
    const std::string_view parameter = rest.substr(0, rest.find('&'));
    if (parameter.substr(0, parameter.find('=')) == name && parameter.size() > name.size())
      return percent_decoded(parameter.substr(name.size() + 1));
  }
  return {};
}

}  // namespace tp
