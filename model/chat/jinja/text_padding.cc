// Methods that pad strings to a width, or test their characters.
#include "model/chat/jinja/library.h"
#include "model/chat/jinja/text_methods.h"
#include "model/tokenizer/text/unicode.h"
#include "model/tokenizer/text/utf8.h"

#include <algorithm>

namespace tp::jinja {
namespace {

// The number of characters by which `self` is shorter than the width.
std::size_t missing_to(std::int64_t width, const MarkedText& self, Heap& heap) {
  const auto length = static_cast<std::int64_t>(length_of(self, heap.budget()));
  const auto missing = static_cast<std::size_t>(std::clamp<std::int64_t>(width - length, 0, Budget::kLimit));
  heap.budget().spend(missing);
  return missing;
}

MarkedText repeated(const MarkedText& character, std::size_t times) {
  MarkedText out;
  for (std::size_t i = 0; i < times; ++i) out.append(character);
  return out;
}

// In center(), Python puts the odd character on the left if the width is odd.
enum class Side : std::uint8_t { left, right, both };

template <Side side>
Value fill(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const std::int64_t width = integer_of(arguments.at(0, "width"), "the width");
  const Value* given = arguments.find(1, "fillchar");
  const MarkedText character = given == nullptr ? MarkedText(" ") : marked_text_of(*given, "the fillchar");
  if (length_of(character, heap.budget()) != 1) throw EvaluationError("the fillchar must be one character");
  const std::size_t missing = missing_to(width, self, heap);
  const std::size_t odd = missing % 2 == 1 && width % 2 == 1 ? 1 : 0;
  const std::size_t left = side == Side::left ? missing : side == Side::right ? 0 : missing / 2 + odd;
  MarkedText out = repeated(character, left);
  out.append(self);
  out.append(repeated(character, missing - left));
  return out;
}

Value zfill(const MarkedText& self, Arguments& arguments, Heap& heap) {
  const std::size_t missing = missing_to(integer_of(arguments.at(0, "width"), "the width"), self, heap);
  const bool has_sign = self.text().starts_with('-') || self.text().starts_with('+');
  MarkedText out = self.substr(0, has_sign ? 1 : 0);
  out.append(repeated(MarkedText("0"), missing));
  out.append(self.substr(has_sign ? 1 : 0));
  return out;
}

Value swapcase(const MarkedText& self, Arguments&, Heap&) {
  return self.transformed([](std::string_view run) {
    std::string out;
    for (const auto [c, bytes] : utf8::Characters(run)) {
      const std::string lower = unicode::to_lower(bytes);
      out += lower == bytes ? unicode::to_upper(bytes) : lower;
    }
    return out;
  });
}

// Whether words begin with capitals and continue with small letters.
Value istitle(const MarkedText& self, Arguments&, Heap&) {
  bool is_title = true;
  bool has_words = false;
  bool within = false;
  for (const auto [c, bytes] : utf8::Characters(self.text())) {
    const bool is_cased = unicode::is_cased(c);
    const bool is_capital = is_cased && unicode::to_upper(bytes) == bytes;
    is_title = is_title && (!is_cased || is_capital != within);
    has_words = has_words || is_cased;
    within = is_cased;
  }
  return is_title && has_words;
}

Value isascii(const MarkedText& self, Arguments&, Heap&) {
  return std::ranges::all_of(self.text(), [](char byte) { return (byte & 0x80) == 0; });
}

constexpr Named<TextMethod> kPaddingMethods[] = {{"center", fill<Side::both>},
                                                 {"isascii", isascii},

                                                 {"istitle", by_character<istitle>},
                                                 {"ljust", fill<Side::right>},
                                                 {"rjust", fill<Side::left>},
                                                 {"swapcase", by_character<swapcase>},
                                                 {"zfill", zfill}};

}  // namespace

TextMethod find_padding_method(std::string_view name) { return find_named(kPaddingMethods, name); }

}  // namespace tp::jinja
