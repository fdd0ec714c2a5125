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

bool flag_or(Arguments& arguments, std::size_t index, std::string_view name, bool otherwise) {
  const Value* value = arguments.find(index, name);
  return value == nullptr ? otherwise : is_true(*value);
}

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
  return title_case(printed(subject, heap.budget()), [](char32_t c) {
    return unicode::is_white_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  });
}

Value trim(const Value& subject, Arguments& arguments, Heap& heap) {
  const Value* characters = arguments.find(0, "chars");
  const bool given = characters != nullptr && !characters->is<None>();
  const std::string* text = given ? &text_of(*characters, "chars") : nullptr;
  const MarkedText whole = printed(subject, heap.budget());
  return whole.part(stripped(whole.text(), text, true, true));
}

Value replace(const Value& subject, Arguments& arguments, Heap& heap) {
  const Value* count = arguments.find(2, "count");
  const bool limited = count != nullptr && !count->is<None>();
  return replaced(printed(subject, heap.budget()), printed(arguments.at(0, "old"), heap.budget()).text(),
                  printed(arguments.at(1, "new"), heap.budget()), limited ? integer_of(*count, "count") : -1,
                  heap.budget());
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
  const bool indents_first = flag_or(arguments, 1, "first", false);
  const bool indents_blank = flag_or(arguments, 2, "blank", false);
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
  for (std::string_view rest = text; !rest.empty();) {
    const utf8::Character character = utf8::first_character(rest);
    const bool is_word = unicode::is_word_character(character.code_point);
    words += is_word && !within ? 1 : 0;
    within = is_word;
    rest.remove_prefix(character.length);
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
  style.ascii_only = flag_or(arguments, 0, "ensure_ascii", false);
  const Value* indent = arguments.find(1, "indent");
  const Value* separators = arguments.find(2, "separators");
  style.sorted_keys = flag_or(arguments, 3, "sort_keys", false);
  if (indent != nullptr && !indent->is<None>()) {
    const std::int64_t width = integer_of(*indent, "indent");
    style.indent = static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, 10000));
    style.item_separator = MarkedText(",");
  }
  if (separators != nullptr && !separators->is<None>()) {
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
  if (const auto* boolean = value.get_if<bool>()) return *boolean ? 1.0 : 0.0;
  if (const auto* whole = value.get_if<std::int64_t>()) return static_cast<double>(*whole);
  if (const auto* number = value.get_if<double>()) return *number;
  return value.is_text() ? parsed<double>(value.text()) : std::nullopt;
}

Value to_int(const Value& subject, Arguments& arguments, Heap&) {
  check_defined(subject);
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

Value to_float(const Value& subject, Arguments& arguments, Heap&) {
  check_defined(subject);
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
  const Value* given = arguments.find(0, "precision");
  const Value* given_method = arguments.find(1, "method");
  const std::int64_t precision = given == nullptr ? 0 : integer_of(*given, "precision");
  const std::string method = given_method == nullptr ? "common" : text_of(*given_method, "method");
  if (precision < 0 || precision > 20)
    throw EvaluationError(fmt::format("round needs a precision from 0 to 20, found {}", precision));
  if (subject.is<std::int64_t>() && method == "common") return subject;
  const std::optional<double> number = subject.is_text() ? std::nullopt : double_in(subject);
  if (!number) throw EvaluationError(fmt::format("round needs a number, found {}", subject.type_name()));
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(*number * scale) / scale;
  if (method == "floor") return std::floor(*number * scale) / scale;
  if (method != "common")
    throw EvaluationError(fmt::format("round knows common, ceil and floor, found '{}'", method));
  return std::strtod(fmt::format("{:.{}f}", *number, precision).c_str(), nullptr);
}

struct Entry {
  std::string_view name;
  FilterFunction filter;
};

constexpr Entry kFilters[] = {{"abs", absolute},
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

FilterFunction find_text_filter(std::string_view name) {
  const auto found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(kFilters) ? nullptr : found->filter;
}

}  // namespace tp::jinja
