// Chats with tools, from a request's body to the message in the model's answer. An input's first two bytes
// choose the API and the chat template. The rest of its first line is the body. The other lines are the
// model's answer. Seeds: tests/data/requests/chat.
#include "model/tokenizer/text/utf8.h"
#include "runtime/api/api_error.h"
#include "runtime/api/request_fields.h"
#include "runtime/chat/chat_prompts.h"
#include "runtime/constraint/constraint_compiler.h"
#include "tests/fuzz/grammar_walk.h"
#include "tests/fuzz/read_api_call.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tp {
namespace {

// Short templates whose families write calls in different notations, and templates of published shapes.
std::vector<std::filesystem::path> template_files() {
  std::vector<std::filesystem::path> files;
  for (const char* const folder : {TP_TEST_DATA "/chat", TP_TEST_DATA "/chat_templates"}) {
    const auto begin = static_cast<std::ptrdiff_t>(files.size());
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".jinja") files.push_back(entry.path());
    }
    std::sort(files.begin() + begin, files.end());
  }
  return files;
}

const ChatPrompts& chat_of(std::uint8_t digit) {
  static const std::vector<std::filesystem::path> files = template_files();
  static std::map<std::size_t, ChatPrompts> chats;
  const std::size_t index = static_cast<std::uint8_t>(digit - '0') % files.size();
  const auto found = chats.find(index);
  return found != chats.end() ? found->second
                              : chats.try_emplace(index, ChatTemplate::load_file(files[index])).first->second;
}

// All members of a message except ids, which are random.
std::vector<std::string> shown(const Message& message) {
  const auto flags = [](auto... values) { return (std::string() + ... + std::to_string(int{values})); };
  std::vector<std::string> all = {message.reasoning, message.text};
  for (const ToolCall& call : message.calls)
    all.insert(all.end(), {call.name, call.arguments, flags(call.is_complete, call.takes_text)});
  for (const MessageBlock& block : message.blocks)
    all.insert(all.end(), {block.name, block.text,
                           flags(static_cast<int>(block.kind), block.is_closed, block.takes_text)});
  return all;
}

// The division of an answer into pieces must not change the message.
void check_pieces(const AnswerSyntax& syntax, std::string_view answer, Ending ending) {
  const std::vector<std::string> whole = shown(read_message(syntax, answer, ending));
  for (const std::size_t size : {1, 2, 7}) {
    const auto reader = make_message_reader(syntax);
    Message message;
    for (std::size_t begin = 0; begin < answer.size(); begin += size) {
      for (MessagePiece& piece : reader->push(answer.substr(begin, size))) message.add(piece);
    }
    for (MessagePiece& piece : reader->finish(ending)) message.add(piece);
    if (shown(message) != whole) std::abort();
  }
}

void complete_chat(const ApiRequest& asked, const ChatPrompts& chat, const std::string& answer) {
  if (!asked.conversation) return;
  Request request;
  set_fields(asked.settings, request);
  const MarkedText prompt = chat.prompt_of(*asked.conversation);
  if (asked.thinks_if_able && !chat.thinking_limit(0, prompt)) request.thinking.reset();
  const AnswerSyntax syntax = chat.complete(*asked.conversation, prompt, asked.calls, request);
  for (const Ending ending : {Ending::complete, Ending::cut}) check_pieces(syntax, answer, ending);
  if (!request.constraint) return;
  const constraint::Automaton automaton =
      constraint::build_automaton(constraint::grammar_of(*request.constraint, request.constraint_frame));
  std::string allowed;
  utf8::append_repaired(allowed, constraint::walk(automaton, answer));
  check_pieces(syntax, allowed, Ending::cut);
}

}  // namespace
}  // namespace tp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view body = text.substr(0, text.find('\n'));
  std::string answer;
  tp::utf8::append_repaired(answer, text.substr(std::min(body.size() + 1, text.size())));
  try {
    for (const tp::ApiRequest& asked : tp::read_api_call(data[0], body).prompts)
      tp::complete_chat(asked, tp::chat_of(data[1]), answer);
  } catch (const std::exception& error) {
    // A wrong request is the client's fault. Other errors would be the server's.
    if (tp::api_error_of(error).status >= 500) std::abort();
  }
  return 0;
}
