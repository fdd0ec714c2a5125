#include "model/tokenizer/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/tokenizer/text/oniguruma.h"
#include "model/tokenizer/text/utf8.h"
#include "tp/internal/require.h"

#include <fmt/format.h>
#include <pcre2.h>

namespace tp {
namespace {

template <auto function>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    function(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

// Tokenizers' patterns need a few steps per character, so 16 MB of text stay below this limit. Patterns with
// catastrophic backtracking reach it within about a second.
constexpr std::uint32_t max_steps = 50'000'000;
constexpr std::uint32_t kMaxStepsOfName = 100'000;
constexpr std::uint32_t max_heap_kib = 256 << 10;
constexpr std::size_t kMaxJitStack = 64 << 20;

std::string message_of(int error_code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error_code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// The buffers of a search. Each thread has its own, because the compiled code is shared.
class MatchState {
 public:
  MatchState() : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    if (!data_ || !context_) throw std::bad_alloc();
    pcre2_set_heap_limit(context_.get(), max_heap_kib);
  }

  // Returns PCRE2's result. The JIT's usual stack has 32 KiB; a larger one is allocated at the first search
  // that needs it.
  int match(const pcre2_code* code, std::string_view text, std::size_t from,
            std::uint32_t match_limit = max_steps) {
    pcre2_set_match_limit(context_.get(), match_limit);
    int result = match_once(code, text, from);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !jit_stack_) {
      jit_stack_.reset(pcre2_jit_stack_create(64 << 10, kMaxJitStack, nullptr));
      pcre2_jit_stack_assign(context_.get(), nullptr, jit_stack_.get());
      result = match_once(code, text, from);
    }
    return result;
  }

  Span found() const {
    const std::size_t* offsets = pcre2_get_ovector_pointer(data_.get());
    return {offsets[0], offsets[1]};
  }

 private:
  int match_once(const pcre2_code* code, std::string_view text, std::size_t from) {
    // Without NO_UTF_CHECK every call would validate the rest of the text: quadratic time.
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK,
                       data_.get(), context_.get());
  }

  MatchData data_;
  MatchContext context_;
  JitStack jit_stack_;
};

MatchState& match_state() {
  thread_local MatchState state;
  return state;
}

bool is_script(std::string_view name) {
  const std::string pattern = fmt::format("\\p{{sc:{}}}", name);
  int error = 0;
  std::size_t offset = 0;
  return Code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error,
                            &offset, nullptr)) != nullptr;
}

}  // namespace

struct Regex::Program {
  Code code;
  std::string pattern;
};

Regex Regex::from_oniguruma(std::string_view pattern) {
  return compile(pcre2_pattern_from_oniguruma(pattern, is_script),
                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
}

// PCRE2 reads Python's syntax. Only an option of the compiled pattern can anchor matches with the JIT.
Regex Regex::from_python(std::string_view pattern) {
  return compile(pattern, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C);
}

Regex Regex::literal(std::string_view text) { return compile(text, PCRE2_UTF | PCRE2_LITERAL); }

Regex Regex::compile(std::string_view pattern, unsigned options) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  std::size_t offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error,
                          &offset, context.get()));
  if (!code)
    throw RegexError(fmt::format("the pattern '{}' is wrong at {}: {}", pattern, offset, message_of(error)));
  // Without a JIT, the interpreter finds the same matches more slowly.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::make_shared<const Program>(Program{std::move(code), std::string(pattern)}));
}

bool Regex::begins(std::string_view text) const {
  const int result = match_state().match(program_->code.get(), text, 0, kMaxStepsOfName);
  if (result < 0 && result != PCRE2_ERROR_NOMATCH)
    throw RegexError(fmt::format("the pattern '{}' cannot be matched with a text of {} bytes: {}",
                                 program_->pattern, text.size(), message_of(result)));
  return result >= 0;
}

std::vector<Span> Regex::matches(std::string_view text) const {
  MatchState& state = match_state();
  std::vector<Span> found;
  std::size_t from = 0;
  while (from <= text.size()) {
    const int result = state.match(program_->code.get(), text, from);
    if (result == PCRE2_ERROR_NOMATCH) break;
    require<RequestError>(
        result >= 0,
        "cannot split a text of {} bytes: expected the tokenizer's pattern '{}' to be matched "
        "within PCRE2's limits, found: {}; split the text into smaller parts",
        text.size(), program_->pattern, message_of(result));
    const Span match = state.found();
    const bool repeats_last_end = match.empty() && !found.empty() && found.back().end == match.end;
    if (repeats_last_end) {
      from += from < text.size() ? utf8::first_character(text.substr(from)).length : 1;
      continue;
    }
    found.push_back(match);
    from = match.end;
  }
  return found;
}

std::string Regex::replace(std::string_view text, std::string_view replacement) const {
  std::string out;
  out.reserve(text.size());
  std::size_t copied = 0;
  for (const Span& match : matches(text)) {
    out.append(text.substr(copied, match.begin - copied)).append(replacement);
    copied = match.end;
  }
  return out.append(text.substr(copied));
}

}  // namespace tp
