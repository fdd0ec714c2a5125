#include "model/chat/jinja/text_methods.h"

#include "model/chat/jinja/library.h"
#include "model/chat/jinja/operators.h"
#include "model/chat/jinja/printing.h"
#include "model/chat/jinja/text_search.h"
#include "model/tokenizer/text/unicode.h"
#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

bool is_space(char32_t c) { return unicode::is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

// The length in bytes of the last character.
std::size_t last_length(std::string_view text) {
  std::size_t length = 1;
  while ((text[text.size() - length] & 0xC0) == 0x80) ++length;
  return length;
}

const std::string* optional_text(Arguments& arguments, std::size_t index, std::string_view name) {
  const Value* value = arguments.find_given(index, name);
  return value == nullptr ? nullptr : &require_text(*value, name);
}

// Makes a list of parts of a text, which are given as views.
List* list_of(const std::vector<std::string_view>& parts, const MarkedText& text, Heap& heap) {
  std::vector<Value> items;
  for (const std::string_view part : parts) {
    heap.budget().spend(part.size() + Budget::kElement);
    items.emplace_back(text.part(part));
  }
  return heap.make_list(std::move(items));
}

// The length in bytes of the first or last word of a text without white space at that end.
std::size_t word_length(std::string_view text, bool from_right) {
  std::size_t length = 0;
  while (length < text.size()) {
    const std::string_view rest = from_right ? text.substr(0, text.size() - length) : text.substr(length);
    const std::size_t size = from_right ? last_length(rest) : utf8::first_character(rest).length;
    const std::string_view character = from_right ? rest.substr(rest.size() - size) : rest;
    if (is_space(utf8::first_character(character).code_point)) break;
    length += size;
  }
  return length;
}

// Splits at runs of white space, at most `limit` times (negative: always), from the left or from the right.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t limit, bool from_right) {
  std::vector<std::string_view> parts;
  while (true) {
    text = stripped(text, nullptr, !from_right, from_right);
    if (text.empty()) break;
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) == limit) {
      parts.emplace_back(text);
      break;
    }
    const std::size_t length = word_length(text, from_right);
    parts.emplace_back(from_right ? text.substr(text.size() - length) : text.substr(0, length));
    if (from_right)
      text.remove_suffix(length);
    else
      text.remove_prefix(length);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t limit,
                                       bool from_right, Budget& budget) {
  if (separator.empty()) throw EvaluationError("the separator of split must not be empty");
  std::vector<std::size_t> places = places_of(separator, text, limit, from_right, budget);
  if (from_right) std::ranges::reverse(places);
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (const std::size_t place : places) {
    parts.emplace_back(text.substr(begin, place - begin));
    begin = place + separator.size();
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

template <bool from_right>
Value split(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const std::string* separator = optional_text(arguments, 0, "sep");
  const std::int64_t limit = arguments.integer_or(1, "maxsplit", -1);
  heap.budget().spend(separator == nullptr ? self.size() * Budget::kCharacter
                                           : self.size() + separator->size());
  return list_of(separator == nullptr ? split_at_space(self.text(), limit, from_right)
                                      : split_at(self.text(), *separator, limit, from_right, heap.budget()),
                 self, heap);
}

template <bool left, bool right>
Value strip(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const std::string* characters = optional_text(arguments, 0, "chars");
  if (characters != nullptr) heap.budget().spend(characters->size() * Budget::kElement);
  return self.part(stripped(self.text(), characters, left, right));
}

// Whether the text begins or ends with a given text, or with any text of a tuple.
template <bool at_end>
Value starts_or_ends(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const Value& wanted = arguments.at(0, "prefix");
  std::vector<Value> texts = {wanted};
  if (const List* tuple = wanted.list(); tuple != nullptr && tuple->kind == List::Kind::tuple)
    texts = tuple->items;
  return std::any_of(texts.begin(), texts.end(), [&](const Value& value) {
    const std::string& text = require_text(value, at_end ? "a suffix" : "a prefix");
    heap.budget().spend(text.size());
    return at_end ? self.text().ends_with(text) : self.text().starts_with(text);
  });
}

Value replace(const MarkedText& self, Arguments& arguments, Heap& heap) {
  return replaced(self, require_text(arguments.at(0, "old"), "old"),
                  marked_text_of(arguments.at(1, "new"), "new"), arguments.integer_or(2, "count", -1),
                  heap.budget());
}

Value upper(const MarkedText& self, Arguments&, Heap&) { return self.transformed(unicode::to_upper); }
Value lower(const MarkedText& self, Arguments&, Heap&) { return self.transformed(unicode::to_lower); }
// Converts the first letter to upper case, and all others to lower case.
Value capitalize(const MarkedText& self, Arguments&, Heap&) {
  return title_case(self, [](char32_t) { return false; });
}

Value title(const MarkedText& self, Arguments&, Heap&) {
  return title_case(self, [](char32_t c) { return !unicode::is_cased(c); });
}

Value join(const MarkedText& self, Arguments& arguments, Heap& heap) {
  MarkedText out;
  bool is_first = true;
  for (const Value& item : elements_of(arguments.at(0, "iterable"), heap.budget())) {
    const MarkedText& text = marked_text_of(item, "every element that join puts together");
    heap.budget().spend(self.size() + text.size());
    if (!is_first) out.append(self);
    is_first = false;
    out.append(text);
  }
  return out;
}

std::int64_t characters_before(const std::string& text, std::size_t place) {
  return std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place),
                       [](char byte) { return (byte & 0xC0) != 0x80; });
}

// The first place of `wanted`, or the last one; npos if there is none. Searching costs units for both texts.
std::size_t find_in(const MarkedText& self, const std::string& wanted, bool from_right, Budget& budget) {
  budget.spend(self.size() + wanted.size());
  if (!from_right) return find_text(self.text(), wanted);
  if (wanted.empty()) return self.size();
  const std::vector<std::size_t> places = places_of(wanted, self.text(), 1, true, budget);
  return places.empty() ? std::string::npos : places.front();
}

template <bool from_right>
Value find(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const std::string& wanted = require_text(arguments.at(0, "sub"), "what find looks for");
  const std::size_t found = find_in(self, wanted, from_right, heap.budget());
  return found == std::string::npos ? std::int64_t{-1} : characters_before(self.text(), found);
}

Value index(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const Value found = find<false>(self, arguments, heap);
  if (*found.get_if<std::int64_t>() < 0) throw EvaluationError("index: the text is not in it");
  return found;
}

Value count(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const std::string& wanted = require_text(arguments.at(0, "sub"), "what count looks for");
  if (wanted.empty()) return Value::size(length_of(self, heap.budget()) + 1);
  heap.budget().spend(self.size() + wanted.size());
  std::int64_t found = 0;
  for (std::size_t at = 0; (at = find_text(self.text(), wanted, at)) != std::string::npos;
       at += wanted.size())
    ++found;
  return found;
}

Value splitlines(const MarkedText& self, Arguments&, Heap& heap) {
  return list_of(lines_of(self.text()), self, heap);
}

template <bool from_right>
Value partition(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const std::string& separator = require_text(arguments.at(0, "sep"), "the separator");
  if (separator.empty()) throw EvaluationError("the separator of partition must not be empty");
  const std::size_t found = find_in(self, separator, from_right, heap.budget());
  std::vector<Value> parts = {self, "", ""};
  if (found != std::string::npos)
    parts = {self.substr(0, found), self.substr(found, separator.size()),
             self.substr(found + separator.size())};
  else if (from_right)
    parts = {"", "", self};
  return heap.make_list(std::move(parts), List::Kind::tuple);
}

Value removeprefix(const MarkedText& self, Arguments& arguments, Heap&) {
  const std::string& prefix = require_text(arguments.at(0, "prefix"), "the prefix");
  return self.text().starts_with(prefix) ? self.substr(prefix.size()) : self;
}

Value removesuffix(const MarkedText& self, Arguments& arguments, Heap&) {
  const std::string& suffix = require_text(arguments.at(0, "suffix"), "the suffix");
  return self.text().ends_with(suffix) ? self.substr(0, self.size() - suffix.size()) : self;
}

// Whether the text is not empty and all its characters are of a kind.
template <bool (*of_kind)(char32_t)>
Value is_all(const MarkedText& self, Arguments&, Heap&) {
  bool all = !self.empty();
  for (const auto [c, bytes] : utf8::Characters(self.text())) all = all && of_kind(c);
  return all;
}

bool is_alpha_or_digit(char32_t c) { return unicode::is_letter(c) || unicode::is_digit(c); }

template <bool is_upper>
Value has_case(const MarkedText& self, Arguments&, Heap&) {
  bool cased = false;
  const std::string& text = self.text();
  for (const auto [c, bytes] : utf8::Characters(text)) cased = cased || unicode::is_cased(c);
  return cased && (is_upper ? unicode::to_upper(text) : unicode::to_lower(text)) == text;
}

// The argument of a format field {..}: the next one if the field is empty, or the one with its number or
// keyword.
const Value& field_argument(std::string_view field, Arguments& arguments, std::size_t& next) {
  if (field.find_first_of("!:.[") != std::string_view::npos) {
    throw EvaluationError(
        fmt::format("the format field {{{}}} is not supported; use {{}}, {{0}} or {{name}}", field));
  }
  if (field.empty()) return arguments.at(next++, "");
  if (field.find_first_not_of("0123456789") == std::string_view::npos && field.size() < 6)
    return arguments.at(std::stoul(std::string(field)), "");
  return arguments.at(arguments.positional.size(), field);
}

Value format(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const std::string_view pattern = self.text();
  MarkedText out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (c != '{' && c != '}') {
      out.append(self, at, 1);
    } else if (at + 1 < pattern.size() && pattern[at + 1] == c) {
      out.append(self, at, 1);
      ++at;
    } else {
      const std::size_t end = c == '{' ? pattern.find('}', at) : std::string::npos;
      if (end == std::string::npos) throw EvaluationError(fmt::format("the format has a single '{}'", c));
      out.append(
          printed(field_argument(pattern.substr(at + 1, end - at - 1), arguments, next), heap.budget()));
      at = end;
    }
  }
  // Unused arguments are not an error.
  arguments.rest(0);
  for (const auto& [name, value] : arguments.keywords) arguments.find(arguments.positional.size(), name);
  return out;
}

constexpr Named<TextMethod> kMethods[] = {{"capitalize", by_character<capitalize>},
                                          {"count", count},
                                          {"endswith", starts_or_ends<true>},
                                          {"find", find<false>},
                                          {"format", format},
                                          {"index", index},
                                          {"isalnum", by_character<is_all<is_alpha_or_digit>>},
                                          {"isalpha", by_character<is_all<unicode::is_letter>>},
                                          {"isdecimal", by_character<is_all<unicode::is_digit>>},
                                          {"isdigit", by_character<is_all<unicode::is_digit>>},
                                          {"islower", by_character<has_case<false>>},
                                          {"isspace", by_character<is_all<is_space>>},
                                          {"isupper", by_character<has_case<true>>},
                                          {"join", join},
                                          {"lower", by_character<lower>},
                                          {"lstrip", strip<true, false>},
                                          {"partition", partition<false>},
                                          {"removeprefix", removeprefix},
                                          {"removesuffix", removesuffix},
                                          {"replace", replace},
                                          {"rfind", find<true>},
                                          {"rpartition", partition<true>},
                                          {"rsplit", split<true>},
                                          {"rstrip", strip<false, true>},
                                          {"split", split<false>},
                                          {"splitlines", by_character<splitlines>},
                                          {"startswith", starts_or_ends<false>},
                                          {"strip", strip<true, true>},
                                          {"title", by_character<title>},
                                          {"upper", by_character<upper>}};

}  // namespace

TextMethod find_text_method(std::string_view name) {
  const TextMethod found = find_named(kMethods, name);
  return found != nullptr ? found : find_padding_method(name);
}

std::string_view stripped(std::string_view text, const std::string* characters, bool left, bool right) {
  std::set<std::string_view> chosen;
  if (characters != nullptr) {
    for (const auto [c, bytes] : utf8::Characters(*characters)) chosen.insert(bytes);
  }
  const auto goes = [&](std::string_view character) {
    return characters == nullptr ? is_space(utf8::first_character(character).code_point)
                                 : chosen.contains(character);
  };
  while (left && !text.empty()) {
    const std::size_t length = utf8::first_character(text).length;
    if (!goes(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    const std::size_t length = last_length(text);
    if (!goes(text.substr(text.size() - length))) break;
    text.remove_suffix(length);
  }
  return text;
}

MarkedText replaced(const MarkedText& text, const std::string& from, const MarkedText& to, std::int64_t limit,
                    Budget& budget) {
  MarkedText out;
  std::size_t at = 0;
  budget.spend(from.size());
  for (; limit != 0; --limit) {
    const std::size_t found = find_text(text.text(), from, at);
    // An empty text matches before each character and at the end.
    if (found == std::string::npos) break;
    budget.spend(found - at + to.size() + 1);
    out.append(text, at, found - at);
    out.append(to);
    at = found + from.size();
    if (!from.empty()) continue;
    if (at == text.size()) return out;
    const std::size_t length = utf8::first_character(std::string_view(text.text()).substr(at)).length;
    out.append(text, at, length);
    at += length;
  }
  budget.spend(text.size() - at);
  out.append(text, at, MarkedText::npos);
  return out;
}

MarkedText title_case(const MarkedText& text, const std::function<bool(char32_t)>& is_separator) {
  bool begins = true;
  return text.transformed([&](std::string_view run) {
    std::string out;
    for (const auto [c, bytes] : utf8::Characters(run)) {
      out += begins ? unicode::to_upper(bytes) : unicode::to_lower(bytes);
      begins = is_separator(c);
    }
    return out;
  });
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\r"), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    if (text.starts_with("\r\n"))
      text.remove_prefix(2);
    else if (!text.empty())
      text.remove_prefix(1);
  }
  return lines;
}

}  // namespace tp::jinja
