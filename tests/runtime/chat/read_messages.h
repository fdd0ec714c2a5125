// Reads messages as JSON, from text in any pieces.
#pragma once

#include "runtime/chat/message_reader.h"

#include <algorithm>
#include <functional>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::test {

using Json = nlohmann::ordered_json;

inline AnswerSyntax syntax_of(const std::string& template_source, const Json& tools) {
  return {.is_plain = false, .syntax = syntax_of_template(template_source), .tools = ToolSet(tools)};
}

inline Message read_in_pieces(const AnswerSyntax& syntax, std::string_view text,
                              const std::function<std::size_t()>& size, Ending ending) {
  Message message;
  const auto reader = make_message_reader(syntax);
  while (!text.empty()) {
    const std::size_t next = std::min(size(), text.size());
    for (MessagePiece piece : reader->push(text.substr(0, next))) message.add(piece);
    text.remove_prefix(next);
  }
  for (MessagePiece piece : reader->finish(ending)) message.add(piece);
  return message;
}

// Returns a message as JSON, without the ids of its calls. Arguments that are not JSON are a text.
inline Json shown(const Message& message) {
  Json calls = Json::array();
  for (const ToolCall& call : message.calls) {
    const Json arguments = Json::parse(call.arguments, nullptr, false);
    EXPECT_EQ(arguments.is_object(), call.is_complete) << call.arguments;
    calls.push_back({call.name, call.is_complete ? arguments : Json(call.arguments)});
  }
  return {{"reasoning", message.reasoning}, {"text", message.text}, {"calls", calls}};
}

// Returns the message, which must be the same for all pieces.
inline Json read(const AnswerSyntax& syntax, const std::string& text, Ending ending = Ending::complete) {
  const Json whole = shown(read_message(syntax, text, ending));
  EXPECT_EQ(shown(read_in_pieces(
                syntax, text, [] { return 1; }, ending)),
            whole)
      << text;
  std::mt19937 random(7);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(shown(read_in_pieces(
                  syntax, text, [&] { return 1 + random() % 9; }, ending)),
              whole)
        << text;
  return whole;
}

inline Json message(const std::string& text, const Json& calls = Json::array(),
                    const std::string& reasoning = "") {
  return {{"reasoning", reasoning}, {"text", text}, {"calls", calls}};
}

// Returns a list with a single call.
inline Json only(const char* name, const Json& arguments) {
  return Json::array({Json::array({name, arguments})});
}

}  // namespace tp::test
