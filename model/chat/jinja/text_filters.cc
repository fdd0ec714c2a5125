// Filters that return strings and numbers.
#include "model/chat/jinja/library.h"
#include "model/chat/jinja/operators.h"
#include "model/chat/jinja/printing.h"
#include "model/chat/jinja/text_methods.h"
#include "model/tokenizer/text/unicode.h"
#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

void check_defined(const Value& subject) {
  if (const auto* undefined = subject.get_if<Undefined>())
    throw EvaluationError(fmt::format("{}, so there is nothing to filter", *undefined->reason));
}

// Filters that call the text method with the same name.
constexpr const char kUpper[] = "upper";
constexpr const char kLower[] = "lower";
constexpr const char kCapitalize[] = "capitalize";

template <const char* name>
Value as_method(const Value& subject, Arguments& arguments, Heap& heap) {
  return find_text_method(name)(printed(subject, heap.budget()), arguments, heap);
}

// Words begin after white space, '-' and opening brackets, unlike in the method title().
Value title(const Value& subject, Arguments&, Heap& heap) {
  const MarkedText text = printed(subject, heap.budget());
  heap.budget().spend(text.size() * Budget::kCharacter);
  return title_case(text, [](char32_t c) {
    return unicode::is_white_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  });
}

Value trim(const Value& subject, Arguments& arguments, Heap& heap) {
  const Value* characters = arguments.find_given(0, "chars");
  const std::string* text = characters == nullptr ? nullptr : &require_text(*characters, "chars");
  if (text != nullptr) heap.budget().spend(text->size() * Budget::kElement);
  const MarkedText whole = printed(subject, heap.budget());
  return whole.part(stripped(whole.text(), text, true, true));
}

Value replace(const Value& subject, Arguments& arguments, Heap& heap) {
  const Value* count = arguments.find_given(2, "count");
  return replaced(printed(subject, heap.budget()), printed(arguments.at(0, "old"), heap.budget()).text(),
                  printed(arguments.at(1, "new"), heap.budget()),
                  count == nullptr ? -1 : integer_of(*count, "count"), heap.budget());
}

Value string(const Value& subject, Arguments&, Heap& heap) { return printed(subject, heap.budget()); }

// Chat templates have no autoescaping, so safe() only converts to text.
Value safe(const Value& subject, Arguments&, Heap& heap) { return printed(subject, heap.budget()); }

std::string escaped_for_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '\'')
      out += "&#39;";
    else if (c == '"')
      out += "&#34;";
    else
      out += c;
  }
  return out;
}

Value escape(const Value& subject, Arguments&, Heap& heap) {
  MarkedText out = printed(subject, heap.budget()).transformed(escaped_for_html);
  heap.budget().spend(out.size());
  return out;
}

Value indent(const Value& subject, Arguments& arguments, Heap& heap) {
  check_defined(subject);
  const Value* width = arguments.find(0, "width");
  const bool indents_first = arguments.flag(1, "first");
  const bool indents_blank = arguments.flag(2, "blank");
  MarkedText space("    ");
  if (width != nullptr && width->is_text()) {
    space = width->marked_text();
  } else if (width != nullptr) {
    const auto size =
        static_cast<std::size_t>(std::clamp<std::int64_t>(integer_of(*width, "width"), 0, 10000));
    space = MarkedText(std::string(size, ' '));
  }
  MarkedText text = printed(subject, heap.budget());
  text.append("\n");  // a text that ends with a line end also has an empty last line
  const std::vector<std::string_view> lines = lines_of(text.text());
  MarkedText out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    heap.budget().spend(space.size() + lines[i].size() + 1);
    if (i != 0) out.append("\n");
    if (i == 0 ? indents_first : indents_blank || !lines[i].empty()) out.append(space);
    out.append(text.part(lines[i]));
  }
  return out;
}

Value wordcount(const Value& subject, Arguments&, Heap& heap) {
  std::int64_t words = 0;
  bool within = false;
  const std::string text = printed(subject, heap.budget()).text();
  heap.budget().spend(text.size() * Budget::kCharacter);
  for (const auto [c, bytes] : utf8::Characters(text)) {
    const bool is_word = unicode::is_word_character(c);
    words += is_word && !within ? 1 : 0;
    within = is_word;
  }
  return words;
}

Value format(const Value& subject, Arguments& arguments, Heap& heap) {
  return format_percent(printed(subject, heap.budget()), heap.make_list(arguments.rest(0), List::Kind::tuple),
                        heap.budget());
}

MarkedText separator_of(const Value& separators, std::size_t index, Heap& heap) {
  return marked_text_of(item_of(separators, Value::size(index), heap), "a separator");
}

Value tojson(const Value& subject, Arguments& arguments, Heap& heap) {
  JsonStyle style;
  // Hugging Face's definition of the filter: without HTML escapes, and with json.dumps' arguments.
  style.ascii_only = arguments.flag(0, "ensure_ascii");
  const Value* indent = arguments.find_given(1, "indent");
  const Value* separators = arguments.find_given(2, "separators");
  style.sorted_keys = arguments.flag(3, "sort_keys");
  if (indent != nullptr) {
    const std::int64_t width = integer_of(*indent, "indent");
    style.indent = static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, 10000));
    style.item_separator = MarkedText(",");
  }
  if (separators != nullptr) {
    style.item_separator = separator_of(*separators, 0, heap);
    style.key_separator = separator_of(*separators, 1, heap);
  }
  return to_json(subject, style, heap.budget());
}

// The number that a whole text represents, apart from white space at its ends.
template <class Number>
std::optional<Number> parsed(const std::string& text) {
  std::string_view digits = stripped(text, nullptr, true, true);
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  Number number{};
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || result.ec != std::errc() || result.ptr != digits.data() + digits.size())
    return std::nullopt;
  return number;
}

std::optional<double> double_in(const Value& value) {
  return value.is_text() ? parsed<double>(value.text()) : number_of(value);
}

void spend_on_digits(const Value& value, Heap& heap) {
  if (value.is_text()) heap.budget().spend(value.text().size() * Budget::kCharacter);
}

Value to_int(const Value& subject, Arguments& arguments, Heap& heap) {
  check_defined(subject);
  spend_on_digits(subject, heap);
  const Value* given = arguments.find(0, "default");
  const Value otherwise = given == nullptr ? Value(std::int64_t{0}) : *given;
  if (const auto* whole = subject.get_if<std::int64_t>()) return *whole;
  if (subject.is_text()) {
    if (const auto whole = parsed<std::int64_t>(subject.text())) return *whole;
  }
  const std::optional<double> number = double_in(subject);
  constexpr double kLimit = 9.2e18;
  if (!number || !(std::abs(*number) < kLimit)) return otherwise;
  return static_cast<std::int64_t>(*number);
}

Value to_float(const Value& subject, Arguments& arguments, Heap& heap) {
  check_defined(subject);
  spend_on_digits(subject, heap);
  const Value* given = arguments.find(0, "default");
  const Value otherwise = given == nullptr ? Value(0.0) : *given;
  const std::optional<double> number = double_in(subject);
  return number ? Value(*number) : otherwise;
}

Value absolute(const Value& subject, Arguments&, Heap&) {
  if (const auto* number = subject.get_if<double>()) return std::abs(*number);
  return integer_of(subject, "the value") < 0 ? apply_sign('-', subject) : apply_sign('+', subject);
}

Value round(const Value& subject, Arguments& arguments, Heap&) {
  const std::int64_t precision = arguments.integer_or(0, "precision", 0);
  const Value* given_method = arguments.find(1, "method");
  const std::string method = given_method == nullptr ? "common" : require_text(*given_method, "method");
  if (precision < 0 || precision > 20)
    throw EvaluationError(fmt::format("round needs a precision from 0 to 20, found {}", precision));
  if (subject.is<std::int64_t>() && method == "common") return subject;
  const std::optional<double> number = number_of(subject);
  if (!number) throw EvaluationError(fmt::format("round needs a number, found {}", subject.type_name()));
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(*number * scale) / scale;
  if (method == "floor") return std::floor(*number * scale) / scale;
  if (method != "common")
    throw EvaluationError(fmt::format("round knows common, ceil and floor, found '{}'", method));
  return std::strtod(fmt::format("{:.{}f}", *number, precision).c_str(), nullptr);
}

constexpr Named<FilterFunction> kFilters[] = {{"abs", absolute},
                                              {"capitalize", as_method<kCapitalize>},
                                              {"e", escape},
                                              {"escape", escape},
                                              {"float", to_float},
                                              {"format", format},
                                              {"indent", indent},
                                              {"int", to_int},
                                              {"lower", as_method<kLower>},
                                              {"replace", replace},
                                              {"round", round},
                                              {"safe", safe},
                                              {"string", string},
                                              {"title", title},
                                              {"tojson", tojson},
                                              {"trim", trim},
                                              {"upper", as_method<kUpper>},
                                              {"wordcount", wordcount}};

}  // namespace

FilterFunction find_text_filter(std::string_view name) { return find_named(kFilters, name); }

}  // namespace tp::jinja
