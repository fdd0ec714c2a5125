#include "runtime/chat/call_shape.h"

#include "model/files/blanks.h"
#include "runtime/chat/message_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kOtherValue = "other_of_probe";
constexpr const char* kProbeText = "[text of probe]";

// The place of a call in a rendered text.
struct WrittenCall {
  std::size_t name = 0;
  std::size_t name_end = 0;
  std::size_t arguments = 0;
  std::size_t arguments_end = 0;
};

// Finds the arguments {"x": "VALUE"}, with any white space, and the name before them.
std::optional<WrittenCall> find_call(std::string_view text, std::string_view value, std::size_t from) {
  const std::size_t place = text.find(value, from);
  if (place == text.npos) return std::nullopt;
  std::string_view before = text.substr(0, place);
  for (const std::string_view part : {"\"", ":", "\"x\""}) {
    if (!before.ends_with(part)) return std::nullopt;
    before = without_trailing_blanks(before.substr(0, before.size() - part.size()));
  }
  std::string_view after = text.substr(place + value.size());
  for (const std::string_view part : {"\"", "}"}) {
    after = without_leading_blanks(after);
    if (!after.starts_with(part)) return std::nullopt;
    after.remove_prefix(part.size());
  }
  if (!before.ends_with('{')) return std::nullopt;
  const std::size_t name = before.rfind(kProbe);
  if (name == before.npos || name < from) return std::nullopt;
  return WrittenCall{.name = name,
                     .name_end = name + std::string_view(kProbe).size(),
                     .arguments = before.size() - 1,
                     .arguments_end = text.size() - after.size()};
}

// The first marker of calls in a text, and its place.
std::pair<std::size_t, std::string> first_marker(std::string_view text, const CallNotation& calls) {
  std::pair<std::size_t, std::string> first = {text.npos, ""};
  for (const auto* markers : {&calls.sections, &calls.begins}) {
    for (const std::string& marker : *markers) {
      if (const std::size_t place = text.find(marker); place < first.first) first = {place, marker};
    }
  }
  return first;
}

// `text` ends where the name begins. An answer begins with the part of `text` that its prompt does not
// contain.
void find_begin(std::string_view text, std::string_view prompt, const MessageSyntax& syntax,
                CallShape& shape) {
  constexpr std::size_t kLongestMarker = 32;
  const auto difference = std::ranges::mismatch(text, prompt).in1;
  const auto same = static_cast<std::size_t>(difference - text.begin());
  // Searched from before the difference, because markers have common beginnings.
  const std::string_view late = text.substr(same - std::min(same, kLongestMarker));
  const auto [place, marker] = first_marker(late, syntax.calls);
  if (place != late.npos) {
    shape.marker = marker;
    shape.begin = late.substr(place);
    return;
  }
  std::string_view begin = text.substr(same);
  if (const std::string& end = syntax.thinking.end; !end.empty() && !syntax.has_channels) {
    if (const std::size_t thought = begin.rfind(end); thought != begin.npos)
      begin.remove_prefix(thought + end.size());
  }
  shape.begin = syntax.has_channels ? begin : without_leading_blanks(begin);
}

Json messages_with(const Json& answer) {
  Json messages = Json::array({{{"role", "user"}, {"content", "?"}}});
  if (!answer.is_null()) messages.push_back(answer);
  return messages;
}

// Removes the end marker of an answer, which is not part of its calls.
std::string without_end(std::string text, const MessageSyntax& syntax, const MessagesRendering& render) {
  if (syntax.has_channels) return {};
  const auto plain = render(messages_with({{"role", "assistant"}, {"content", kProbeText}}), false);
  const std::size_t place = plain ? plain->rfind(kProbeText) : std::string::npos;
  if (place == std::string::npos) return text;
  const std::string end = plain->substr(place + std::string_view(kProbeText).size());
  // Texts and calls may have different markers before the same end marker.
  for (std::size_t place = 0; place < end.size(); place = std::min(end.find('<', place + 1), end.size())) {
    const std::string_view rest = std::string_view(end).substr(place);
    if (text.ends_with(rest)) return text.substr(0, text.size() - rest.size());
  }
  return text;
}

bool is_read_back(const CallShape& shape, const MessageSyntax& syntax, std::size_t calls) {
  const std::string call = kProbe + shape.middle + R"({"x": "1"})";
  std::string text = shape.begin + call;
  for (std::size_t i = 1; i < calls; ++i) text += shape.separator + call;
  MessageSyntax only = syntax;
  only.calls = only_of_shape(syntax.calls, shape);
  const Message message =
      read_message({.is_plain = false, .syntax = only, .tools = ToolSet(probe_tools())}, text + shape.end);
  return message.calls.size() == calls && message.text.empty() && message.reasoning.empty();
}

std::optional<CallShape> find_written_shape(const MessageSyntax& syntax, const MessagesRendering& render) {
  const auto prompt = render(messages_with({}), true);
  const auto one = render(messages_with(probe_call({kProbeValue})), false);
  const auto call = prompt && one ? find_call(*one, kProbeValue, 0) : std::nullopt;
  if (!call) return std::nullopt;
  CallShape shape;
  find_begin(std::string_view(*one).substr(0, call->name), *prompt, syntax, shape);
  shape.middle = one->substr(call->name_end, call->arguments - call->name_end);
  shape.end = without_end(one->substr(call->arguments_end), syntax, render);
  const auto two = render(messages_with(probe_call({kProbeValue, kOtherValue})), false);
  const auto first = two ? find_call(*two, kProbeValue, 0) : std::nullopt;
  const auto second = first ? find_call(*two, kOtherValue, first->arguments_end) : std::nullopt;
  if (second) shape.separator = two->substr(first->arguments_end, second->name - first->arguments_end);
  return shape;
}

CallShape json_shape(const MessageSyntax& syntax) {
  if (syntax.has_channels) return {.begin = "<|channel|>commentary to=functions.", .middle = "<|message|>"};
  const CallNotation& calls = syntax.calls;
  const std::string marker = calls.begins.empty() || calls.may_open_answer ? "" : calls.begins.front();
  const bool is_closed = std::ranges::find(calls.fillers, calls.end) != calls.fillers.end();
  const std::string begin = marker + (is_closed ? "\n" : "") + R"({"name": ")";
  const std::string end = is_closed ? "}\n" + calls.end : "}";
  return {.marker = marker,
          .begin = begin,
          .middle = R"(", "arguments": )",
          .separator = end + "\n" + begin,
          .end = end};
}

}  // namespace

Json probe_tools() {
  const Json schema = {{"type", "object"}, {"properties", {{"x", {{"type", "string"}}}}}};
  const Json function = {{"name", kProbe}, {"description", "d"}, {"parameters", schema}};
  return Json::array({{{"type", "function"}, {"function", function}}});
}

Json probe_call(const std::vector<std::string>& values) {
  Json calls = Json::array();
  for (const std::string& value : values) {
    const Json function = {{"name", kProbe}, {"arguments", {{"x", value}}}};
    calls.push_back({{"id", kAnyCallId}, {"type", "function"}, {"function", function}});
  }
  return {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", calls}};
}

CallShape find_call_shape(const MessageSyntax& syntax, const MessagesRendering& render) {
  std::optional<CallShape> written = find_written_shape(syntax, render);
  CallShape shape = written && is_read_back(*written, syntax, 1) ? *std::move(written) : json_shape(syntax);
  if (!shape.separator.empty() && !is_read_back(shape, syntax, 2)) shape.separator.clear();
  return shape;
}

CallNotation only_of_shape(CallNotation notation, const CallShape& shape) {
  const auto is_unused = [&](const std::string& marker) {
    return shape.begin.find(marker) == std::string::npos && shape.separator.find(marker) == std::string::npos;
  };
  std::erase_if(notation.begins, is_unused);
  std::erase_if(notation.sections, is_unused);
  std::erase_if(notation.heads, is_unused);
  notation.may_open_answer = notation.may_open_answer && shape.marker.empty();
  return notation;
}

}  // namespace tp
