// Chat templates of published models, and calls in their notations.
#pragma once

#include "model/chat/chat_template.h"
#include "runtime/chat/tool_rendering.h"
#include "tests/model/weights/checkpoint_files.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::test {

using Json = nlohmann::ordered_json;

// Whether the templates of published models are available.
inline bool has_published_templates() { return std::filesystem::exists(TP_SHARED_FIXTURES "/chat"); }

// Returns short templates that write calls like published models, and templates of published models, if
// available.
inline std::vector<std::filesystem::path> chat_fixtures() {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path folder : {TP_SHARED_FIXTURES "/chat", TP_TEST_DATA "/chat"}) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  }
  return files;
}

// Names and arguments of calls. The second call is hard to read.
inline const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "note", "description": "d",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}}])");
inline const Json kCalls = Json::parse(R"([
  ["get_weather", {"city": "Z\u00fcrich", "days": 2}],
  ["note", {"text": "a \"b\" \\ {c} ]\n</tool_call> ```", "list": [1, 2.5, null, true, {"deep": {"er": []}}]}],
  ["note", {}]])");

inline Json fixture_conversation(const Json& messages) {
  return {{"messages", messages},
          {"bos_token", "<s>"},
          {"eos_token", "<eos>"},
          {"tools", kTools},
          {"date_string", "26 Jul 2024"}};
}

inline Json assistant_with(const Json& calls) {
  Json list = Json::array();
  for (const Json& call : calls) {
    const Json function = {{"name", call.at(0)},
                           {"arguments", call.at(1).dump()}};  // as a text, like in clients' requests
    list.push_back({{"id", "abcdefghi"}, {"type", "function"}, {"function", function}});
  }
  return {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", list}};
}

inline Json user() { return {{"role", "user"}, {"content", "The weather?"}}; }

struct ChatFixture {
  explicit ChatFixture(const std::filesystem::path& file)
      : path(folder.path() / "template.jinja"),
        source(source_in(file)),
        chat((write(), ChatTemplate::load_file(path))),
        rendering(chat) {}

  static std::string source_in(const std::filesystem::path& file) {
    std::ifstream stream(file);
    if (file.extension() == ".json") return Json::parse(stream).at("chat_template");
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write() const { std::ofstream(path) << source; }
  std::string render(const Json& messages, bool begins_answer) const {
    Json input = fixture_conversation(messages);
    if (begins_answer) input["add_generation_prompt"] = true;
    return chat.render(rendering.adapted(chat, input)).text();
  }

  TemporaryDirectory folder;
  std::filesystem::path path;
  std::string source;
  ChatTemplate chat;
  ToolRendering rendering;
};

// Returns a model's answer with these calls: the text that the template writes after the prompt for an
// assistant message with the calls.
inline std::string answer_of(const ChatFixture& fixture, const Json& calls) {
  const std::string prompt = fixture.render(Json::array({user()}), true);
  const std::string whole = fixture.render(Json::array({user(), assistant_with(calls)}), false);
  // A prompt may end with more text than an answer begins with, such as a newline or <think>.
  std::size_t same = 0;
  while (same < prompt.size() && same < whole.size() && prompt[same] == whole[same]) ++same;
  // <think> and the markers of calls begin alike.
  if (const std::size_t marker = whole.rfind('<', same); marker != whole.npos && marker + 5 > same)
    same = marker;
  std::string answer = whole.substr(same);
  // Removes the end of the answer, which is the same as the end of a plain text.
  const std::string plain =
      fixture.render(Json::array({user(), {{"role", "assistant"}, {"content", "[text]"}}}), false);
  const std::string end = plain.substr(plain.rfind("[text]") + 6);
  for (std::size_t place = 0; place < end.size(); place = std::min(end.find('<', place + 1), end.size())) {
    if (!answer.ends_with(std::string_view(end).substr(place))) continue;
    answer.erase(answer.size() - (end.size() - place));
    break;
  }
  // Templates of thinking models omit the thinking of earlier answers.
  for (const char* begin : {"<｜Assistant｜>"}) {
    if (answer.starts_with(begin)) answer.erase(0, std::string_view(begin).size());
  }
  return answer;
}

}  // namespace tp::test
