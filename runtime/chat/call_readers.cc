#include "runtime/chat/call_readers.h"

#include "model/files/blanks.h"

#include <algorithm>
#include <iterator>

namespace tp {
namespace {

std::string_view name_of_mistral(std::string_view header) {
  return without_blanks(header.substr(0, header.find('[')));
}

// Accepts name<sep>{...}, or function<sep>name followed by a new line and ```json before the arguments.
std::string_view name_of_deepseek(std::string_view header) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  const std::size_t place = header.find(kSeparator);
  if (place == header.npos) return {};
  const std::string_view after = header.substr(place + kSeparator.size());
  const std::string_view line = without_trailing_blanks(after.substr(0, after.find('\n')));
  return line.empty() || line.starts_with("```") ? without_trailing_blanks(header.substr(0, place)) : line;
}

std::string_view name_of_glm(std::string_view header) { return without_trailing_blanks(header); }

std::string_view name_of_kimi(std::string_view header) {
  constexpr std::string_view kPrefix = "functions.";
  const std::size_t place = header.find(kPrefix);
  if (place == header.npos) return {};
  const std::string_view name = header.substr(place + kPrefix.size());
  return name.substr(0, name.find_first_of(":<"));
}

std::string_view name_of_solar(std::string_view header) {
  constexpr std::string_view kBegin = "<|tool_call:name|>";
  const std::size_t place = header.find(kBegin);
  if (place == header.npos) return {};
  const std::string_view name = header.substr(place + kBegin.size());
  return without_trailing_blanks(name.substr(0, name.find("<|tool_call:args|>")));
}

}  // namespace

std::vector<std::string> ends_of(const CallNotation& calls) {
  std::vector<std::string> ends;
  for (const auto* markers : {&calls.begins, &calls.fillers}) {
    std::ranges::copy_if(*markers, std::back_inserter(ends), [](const std::string& marker) {
      return marker.front() == '<' || marker.front() == '[';
    });
  }
  return ends;
}

std::unique_ptr<CallReader> make_call_reader(const CallNotation& calls, const ToolSet& tools, bool is_strict,
                                             char first) {
  const JsonCalls json = calls.form == CallForm::keyed ? JsonCalls::keyed
                         : is_strict                   ? JsonCalls::strict
                                                       : JsonCalls::any;
  if (calls.form == CallForm::pythonic) return make_pythonic_reader(tools, json);
  if (first == '{' || first == '[') return make_json_reader(tools, json);
  switch (calls.form) {
    case CallForm::json:
    case CallForm::keyed:
    case CallForm::pythonic:
      return nullptr;
    case CallForm::tagged:
      return make_tag_reader(tools, first == '<' && calls.tags->head.empty() ? kParameters : *calls.tags,
                             calls.begins, calls.end);
    case CallForm::mistral:
      return make_headed_reader(tools, name_of_mistral, ends_of(calls));
    case CallForm::deepseek:
      return make_headed_reader(tools, name_of_deepseek, ends_of(calls));
    case CallForm::glm:
      return make_headed_reader(tools, name_of_glm, ends_of(calls));
    case CallForm::kimi:
      return make_headed_reader(tools, name_of_kimi, ends_of(calls));
    case CallForm::solar:
      return make_headed_reader(tools, name_of_solar, ends_of(calls));
    case CallForm::gemma:
      return make_escaped_reader(tools, calls.end);
  }
  return nullptr;
}

}  // namespace tp
