#include "model/files/strict_json.h"

#include "model/files/json_fault.h"
#include "model/files/printable.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::size_t kMaxDepth = 64;

using Object = nlohmann::json::object_t;
using OrderedObject = nlohmann::ordered_json::object_t;

template <class Json>
using Members = std::span<std::pair<std::string, Json>>;

// The first bytes of a member's name, as a number that compares like the text.
struct Beginning {
  std::uint64_t first_bytes = 0;
  std::size_t member = 0;
};

// The members in the order of their names. Of members with the same name, the last is kept, and `on_repeated`
// is called for one name. If `on_repeated` is empty, throws JsonError instead.
template <class Json>
std::vector<Beginning> sorted(Members<Json> members, const OnRepeatedKey& on_repeated) {
  std::vector<Beginning> order;
  order.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::uint64_t bytes = 0;
    for (std::size_t place = 0; place < sizeof(bytes); ++place) {
      const std::string& name = members[i].first;
      bytes = bytes << 8 | (place < name.size() ? static_cast<unsigned char>(name[place]) : 0U);
    }
    order.push_back({bytes, i});
  }
  const auto name = [&](const Beginning& of) -> const std::string& { return members[of.member].first; };
  std::ranges::sort(order, [&](const Beginning& one, const Beginning& other) {
    if (one.first_bytes != other.first_bytes) return one.first_bytes < other.first_bytes;
    const int compared = name(one).compare(name(other));
    return compared != 0 ? compared < 0 : one.member > other.member;
  });
  // Among equal names, the last member comes first now.
  const auto same = std::ranges::adjacent_find(order, {}, name);
  if (same == order.end()) return order;
  if (!on_repeated) throw JsonError(fmt::format("an object has the key {} twice", printable(name(*same))));
  on_repeated(name(*same));
  const auto have_one_name = [&](const Beginning& one, const Beginning& other) {
    return name(one) == name(other);
  };
  order.erase(std::unique(same, order.end(), have_one_name), order.end());
  return order;
}

// nlohmann::json stores members in a tree. Inserting them in order is several times faster, and makes walking
// and freeing the tree faster, too.
nlohmann::json object_of(Members<nlohmann::json> members, const OnRepeatedKey& on_repeated) {
  Object object;
  for (const Beginning& next : sorted(members, on_repeated)) {
    auto& [name, value] = members[next.member];
    object.emplace_hint(object.end(), std::move(name), std::move(value));
  }
  return object;
}

nlohmann::ordered_json object_of(Members<nlohmann::ordered_json> members, const OnRepeatedKey& on_repeated) {
  sorted(members, on_repeated);
  OrderedObject object;
  object.reserve(members.size());
  for (auto& [name, value] : members) object.emplace_back(std::move(name), std::move(value));
  return object;
}

// Builds the document from the parser's events. Inner values are completed before outer ones.
template <class Json>
class Builder {
 public:
  explicit Builder(OnRepeatedKey on_repeated) : on_repeated_(std::move(on_repeated)) {}

  Json take() { return std::move(document_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(typename Json::number_integer_t value) { return add(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) { return add(value); }
  bool number_float(typename Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(typename Json::binary_t& value) { return add(std::move(value)); }

  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    members_.emplace_back(name, nullptr);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    const std::string fault = json_fault(error);
    throw JsonError((fault.starts_with("line ") ? "parse error at " : "") + fault);
  }

 private:
  // A list or an object that has begun but not ended.
  struct Open {
    bool is_object = false;
    std::size_t first_member = 0;  // index in members_
    typename Json::array_t elements{};
  };

  bool add(Json&& value) {
    if (open_.empty())
      document_ = std::move(value);
    else if (open_.back().is_object)
      members_.back().second = std::move(value);
    else
      open_.back().elements.push_back(std::move(value));
    return true;
  }

  bool open(bool is_object) {
    if (open_.size() == kMaxDepth)
      throw JsonError(fmt::format("lists and objects are nested deeper than {} levels", kMaxDepth));
    open_.push_back({.is_object = is_object, .first_member = members_.size()});
    return true;
  }

  bool close() {
    Open ended = std::move(open_.back());
    open_.pop_back();
    if (!ended.is_object) return add(std::move(ended.elements));
    const auto members = std::span(members_).subspan(ended.first_member);
    Json object = is_python_number(members) ? std::move(members[0].second) : object_of(members, on_repeated_);
    members_.resize(ended.first_member);
    return add(std::move(object));
  }

  // {"__float__": "Infinity"}
  bool is_python_number(Members<Json> members) const {
    return on_repeated_ && members.size() == 1 && members[0].first == "__float__" &&
           members[0].second.is_string();
  }

  OnRepeatedKey on_repeated_;
  Json document_;
  std::vector<Open> open_;                             // outermost first
  std::vector<std::pair<std::string, Json>> members_;  // members of all open objects
};

template <class Json>
Json parse(std::string_view text, OnRepeatedKey on_repeated) {
  Builder<Json> builder(std::move(on_repeated));
  Json::sax_parse(text, &builder);
  return builder.take();
}

// The end of the string whose opening quotation mark is at `begin`.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  std::size_t place = begin + 1;
  while (place < text.size() && text[place] != '"') place += text[place] == '\\' ? 2 : 1;
  return std::min(place + 1, text.size());
}

// Bytes of a number that JSON lacks (-Infinity, Infinity, NaN) at the text's beginning; 0 if there is none.
std::size_t size_of_python_number(std::string_view text) {
  for (const std::string_view number : {"-Infinity", "Infinity", "NaN"}) {
    if (text.starts_with(number)) return number.size();
  }
  return 0;
}

// The text with quotation marks around numbers that JSON lacks; empty if it contains none.
std::string with_quoted_numbers(std::string_view text) {
  std::string result;
  std::size_t copied = 0;
  for (std::size_t place = 0; place < text.size();) {
    if (text[place] == '"') {
      place = end_of_string(text, place);
      continue;
    }
    const std::size_t size = size_of_python_number(text.substr(place));
    if (size == 0) {
      ++place;
      continue;
    }
    result.append(text.substr(copied, place - copied)).append(1, '"').append(text.substr(place, size));
    result.append(1, '"');
    copied = place += size;
  }
  return copied == 0 ? result : result.append(text.substr(copied));
}

}  // namespace

template <class Json>
Json parse_strict_json(std::string_view text) {
  return parse<Json>(text, nullptr);
}

nlohmann::json parse_python_json(std::string_view text, OnRepeatedKey on_repeated) {
  const bool has_numbers = text.find("Infinity") != text.npos || text.find("NaN") != text.npos;
  const std::string quoted = has_numbers ? with_quoted_numbers(text) : std::string();
  return parse<nlohmann::json>(quoted.empty() ? text : std::string_view(quoted), std::move(on_repeated));
}

template nlohmann::json parse_strict_json(std::string_view text);
template nlohmann::ordered_json parse_strict_json(std::string_view text);

}  // namespace tp
