#include "tests/model/tokenizer/oniguruma_oracle.h"

#include "model/tokenizer/text/utf8.h"

#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <oniguruma.h>

namespace tp::testing {
namespace {

const UChar* begin_of(const std::string& text) { return reinterpret_cast<const UChar*>(text.data()); }
const UChar* end_of(const std::string& text) { return begin_of(text) + text.size(); }

void initialize() {
  static OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
  static const int result = onig_initialize(encodings, 1);
  if (result != ONIG_NORMAL) throw std::runtime_error("Oniguruma cannot be initialized");
}

}  // namespace

struct OnigurumaPattern::Program {
  regex_t* regex = nullptr;
  ~Program() { onig_free(regex); }
};

OnigurumaPattern::OnigurumaPattern(const std::string& pattern) {
  initialize();
  OnigErrorInfo error;
  regex_t* regex = nullptr;
  const int result = onig_new(&regex, begin_of(pattern), end_of(pattern), ONIG_OPTION_NONE,
                              ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &error);
  if (result != ONIG_NORMAL)
    throw std::runtime_error(fmt::format("Oniguruma refuses '{}' with error {}", pattern, result));
  auto program = std::make_shared<Program>();
  program->regex = regex;
  program_ = program;
}

std::vector<Span> OnigurumaPattern::matches(const std::string& text) const {
  const auto free = [](OnigRegion* region) { onig_region_free(region, 1); };
  const std::unique_ptr<OnigRegion, decltype(free)> region(onig_region_new(), free);
  std::vector<Span> found;
  for (std::size_t from = 0; from <= text.size();) {
    const int result = onig_search(program_->regex, begin_of(text), end_of(text), begin_of(text) + from,
                                   end_of(text), region.get(), ONIG_OPTION_NONE);
    if (result == ONIG_MISMATCH) break;
    if (result < 0) throw std::runtime_error(fmt::format("Oniguruma fails with error {}", result));
    const Span match = {static_cast<std::size_t>(region->beg[0]), static_cast<std::size_t>(region->end[0])};
    if (match.empty() && !found.empty() && found.back().end == match.end) {
      from += from < text.size() ? utf8::first_character(std::string_view(text).substr(from)).length : 1;
    } else {
      found.push_back(match);
      from = match.end;
    }
  }
  return found;
}

bool OnigurumaPattern::has_symbols_in_punct() {
  return ONIGURUMA_VERSION_MINOR * 100 + ONIGURUMA_VERSION_TEENY >= 909;
}

}  // namespace tp::testing
