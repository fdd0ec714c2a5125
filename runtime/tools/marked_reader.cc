#include "runtime/tools/marked_reader.h"

#include "runtime/text/overlap.h"

#include <algorithm>
#include <utility>

namespace tp {
namespace {

using Kind = MessagePiece::Kind;

constexpr std::string_view kBlanks = " \n\t\r";
constexpr std::size_t kMaxReread = 1024;
constexpr std::size_t kReadSlice = 4096;

std::string_view without_end_blanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::string_view name_of_mistral(std::string_view header) {
  const std::string_view name = header.substr(0, header.find('['));
  const std::size_t first = std::min(name.find_first_not_of(kBlanks), name.size());
  return without_end_blanks(name.substr(first));
}

// name<sep>{...}, or function<sep>name, a new line and ```json before the arguments.
std::string_view name_of_deepseek(std::string_view header) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  const std::size_t place = header.find(kSeparator);
  if (place == header.npos) return {};
  const std::string_view after = header.substr(place + kSeparator.size());
  const std::string_view line = without_end_blanks(after.substr(0, after.find('\n')));
  return line.empty() || line.starts_with("```") ? without_end_blanks(header.substr(0, place)) : line;
}

std::string_view name_of_glm(std::string_view header) { return without_end_blanks(header); }

std::string_view name_of_kimi(std::string_view header) {
  constexpr std::string_view kPrefix = "functions.";
  const std::size_t place = header.find(kPrefix);
  if (place == header.npos) return {};
  const std::string_view name = header.substr(place + kPrefix.size());
  return name.substr(0, name.find_first_of(":<"));
}

}  // namespace

MarkedReader::MarkedReader(AnswerSyntax syntax)
    : syntax_(std::move(syntax)),
      phase_(syntax_.begins_thinking ? Phase::thinking : Phase::opening),
      skips_space_(syntax_.begins_thinking) {}

MessagePieces MarkedReader::push(std::string_view text) {
  // In slices, as `held_` loses its beginning again and again.
  for (std::size_t begin = 0; begin < text.size(); begin += kReadSlice) {
    held_ += text.substr(begin, kReadSlice);
    while (step()) {
    }
  }
  return std::exchange(pieces_, {});
}

MessagePieces MarkedReader::finish() {
  is_ending_ = true;
  while (step()) {
  }
  if (phase_ == Phase::call) {
    reject_call();
    while (step()) {
    }
  }
  // White space ends a text as the model wrote it, but not a thought, or a text before calls.
  if (phase_ == Phase::text || phase_ == Phase::opening) append(pieces_, Kind::text, space_ + held_);
  return std::exchange(pieces_, {});
}

bool MarkedReader::step() {
  switch (phase_) {
    case Phase::opening:
      return open();
    case Phase::thinking:
      return think();
    case Phase::text:
      return speak();
    case Phase::call:
      return call();
    case Phase::between:
      return continue_calls();
  }
  return false;
}

bool MarkedReader::may_begin_with(const std::vector<std::string>& texts) const {
  return !is_ending_ && std::ranges::any_of(texts, [&](const std::string& text) {
    return text.size() > held_.size() && text.starts_with(held_);
  });
}

std::size_t MarkedReader::beginning_of(const std::vector<std::string>& texts) const {
  std::size_t size = 0;
  for (const std::string& text : texts) {
    if (held_.starts_with(text)) size = std::max(size, text.size());
  }
  return size;
}

// An answer begins with thinking, with a call, or with text.
bool MarkedReader::open() {
  const std::size_t first = std::min(held_.find_first_not_of(kBlanks), held_.size());
  if (!skips_space_) space_ += held_.substr(0, first);
  held_.erase(0, first);
  if (held_.empty()) return false;
  const std::string& thinking = syntax_.syntax.thinking.begin;
  if (!thinking.empty() && held_.starts_with(thinking)) {
    held_.erase(0, thinking.size());
    space_.clear();
    skips_space_ = true;
    phase_ = Phase::thinking;
    return true;
  }
  if (!thinking.empty() && may_begin_with({thinking})) return false;
  const CallNotation& calls = syntax_.syntax.calls;
  if (!syntax_.tools.empty() && calls.may_open_answer) {
    const bool is_name = calls.form == CallForm::glm;
    if (is_name && !is_ending_ && held_.find('\n') == held_.npos &&
        syntax_.tools.has_name_beginning_with(held_, "\n"))
      return false;
    if (opens_call()) {
      has_strict_call_ = true;
      begin_call(0);
      return true;
    }
  }
  phase_ = Phase::text;
  return true;
}

bool MarkedReader::opens_call() const {
  if (held_.front() == '{' || held_.front() == '[') return true;
  const std::size_t line = held_.find('\n');
  return syntax_.syntax.calls.form == CallForm::glm && line != held_.npos &&
         syntax_.tools.contains(without_end_blanks(std::string_view(held_).substr(0, line)));
}

bool MarkedReader::think() {
  const ThinkingMarkers& markers = syntax_.syntax.thinking;
  // Some models repeat the marker that the prompt ends with.
  if (skips_space_) {
    held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
    if (held_.empty() || may_begin_with({markers.begin})) return false;
    if (held_.starts_with(markers.begin)) {
      held_.erase(0, markers.begin.size());
      return true;
    }
    skips_space_ = false;
  }
  const std::size_t end = held_.find(markers.end);
  if (end != held_.npos) {
    ponder(std::string_view(held_).substr(0, end));
    held_.erase(0, end + markers.end.size());
    space_.clear();
    skips_space_ = true;
    // Calls may open the answer also after thinking.
    phase_ = Phase::opening;
    return true;
  }
  const std::size_t certain = held_.size() - (is_ending_ ? 0 : overlap(held_, markers.end));
  ponder(std::string_view(held_).substr(0, certain));
  held_.erase(0, certain);
  return false;
}

bool MarkedReader::speak() {
  std::size_t first = std::string::npos;
  std::size_t kept = 0;
  const CallNotation& calls = syntax_.syntax.calls;
  std::size_t size = 0;
  if (!syntax_.tools.empty()) {
    for (const auto* markers : {&calls.begins, &calls.sections}) {
      for (const std::string& marker : *markers) {
        const std::size_t place = held_.find(marker);
        if (place < first || (place == first && marker.size() > size)) size = marker.size();
        first = std::min(first, place);
        kept = std::max(kept, overlap(held_, marker));
      }
    }
  }
  if (first == std::string::npos) {
    const std::size_t certain = held_.size() - (is_ending_ ? 0 : kept);
    say(std::string_view(held_).substr(0, certain));
    held_.erase(0, certain);
    return false;
  }
  say(std::string_view(held_).substr(0, first));
  held_.erase(0, first);
  has_strict_call_ = false;
  if (beginning_of(calls.begins) == size) {
    begin_call(size);
  } else {
    held_.erase(0, size);
    space_.clear();
    phase_ = Phase::between;
  }
  return true;
}

void MarkedReader::begin_call(std::size_t marker_size) {
  phase_ = Phase::call;
  raw_ = held_.substr(0, marker_size);
  marker_size_ = marker_size;
  held_.erase(0, marker_size);
  reader_.reset();
}

std::unique_ptr<CallReader> MarkedReader::reader_for(char first) const {
  const CallNotation& calls = syntax_.syntax.calls;
  if (first == '{' || first == '[') return make_json_reader(syntax_.tools, has_strict_call_);
  switch (calls.form) {
    case CallForm::json:
      return nullptr;
    case CallForm::tagged:
      return make_collecting_reader(syntax_.tools, calls.end, first == '<' ? kParameters : kKeysAndValues);
    case CallForm::mistral:
      return make_headed_reader(syntax_.tools, name_of_mistral);
    case CallForm::deepseek:
      return make_headed_reader(syntax_.tools, name_of_deepseek);
    case CallForm::glm:
      return make_headed_reader(syntax_.tools, name_of_glm);
    case CallForm::kimi:
      return make_headed_reader(syntax_.tools, name_of_kimi);
    case CallForm::gemma:
      return make_collecting_reader(syntax_.tools, calls.end, kEscaped);
  }
  return nullptr;
}

bool MarkedReader::call() {
  std::size_t read = 0;
  for (; read < held_.size(); ++read) {
    const char byte = held_[read];
    raw_ += byte;
    if (!reader_ && kBlanks.find(byte) != kBlanks.npos) continue;
    if (!reader_) reader_ = reader_for(byte);
    const std::size_t before = pieces_.size();
    const CallReader::State state = reader_ ? reader_->push(byte, pieces_) : CallReader::State::invalid;
    if (pieces_.size() > before) follow_call(pieces_[before].kind, pieces_.back().kind);
    if (state == CallReader::State::reads) continue;
    held_.erase(0, read + 1);
    if (state == CallReader::State::invalid)
      reject_call();
    else
      phase_ = Phase::between;
    return true;
  }
  held_.clear();
  return false;
}

// The white space before a call is no part of the message, unless the call turns out to be none.
void MarkedReader::follow_call(MessagePiece::Kind first, MessagePiece::Kind last) {
  if (first == Kind::call) raw_.insert(0, std::exchange(space_, {}));
  if (last != Kind::call_end) return;
  raw_.clear();
  marker_size_ = 0;
}

// What looked like a call is text.
void MarkedReader::reject_call() {
  const bool has_begun = reader_ && reader_->is_in_call();
  reader_.reset();
  phase_ = Phase::text;
  if (has_begun) {
    append(pieces_, Kind::no_call, raw_);
    return;
  }
  // Another call may begin within it.
  const bool rereads = marker_size_ > 0 && raw_.size() <= kMaxReread;
  const std::size_t certain = rereads ? marker_size_ : raw_.size();
  say(std::string_view(raw_).substr(0, certain));
  held_.insert(0, raw_, certain);
}

bool MarkedReader::continue_calls() {
  held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
  if (held_.empty()) return false;
  const CallNotation& calls = syntax_.syntax.calls;
  if (may_begin_with(calls.begins) || may_begin_with(calls.fillers)) return false;
  if (const std::size_t size = beginning_of(calls.begins); size > 0) {
    has_strict_call_ = false;
    begin_call(size);
  } else if (const std::size_t filler = beginning_of(calls.fillers); filler > 0) {
    held_.erase(0, filler);
  } else if (calls.may_open_answer && held_.front() == '{') {
    has_strict_call_ = true;
    begin_call(0);
  } else {
    skips_space_ = true;
    phase_ = Phase::text;
  }
  return true;
}

void MarkedReader::say(std::string_view text) {
  if (skips_space_) text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  const std::string_view words = without_end_blanks(text);
  if (!words.empty()) {
    append(pieces_, Kind::text, std::exchange(space_, {}));
    append(pieces_, Kind::text, words);
    skips_space_ = false;
  }
  space_ += text.substr(words.size());
}

void MarkedReader::ponder(std::string_view text) {
  const std::string_view words = without_end_blanks(text);
  if (!words.empty()) {
    append(pieces_, Kind::reasoning, std::exchange(space_, {}));
    append(pieces_, Kind::reasoning, words);
  }
  space_ += text.substr(words.size());
}

}  // namespace tp
