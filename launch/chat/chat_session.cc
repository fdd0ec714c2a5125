#include "launch/chat/chat_session.h"

#include "launch/chat/answer_printer.h"
#include "launch/chat/chat_settings.h"
#include "launch/chat/messages_file.h"
#include "launch/common/interruptions.h"
#include "launch/common/message.h"
#include "model/files/printable.h"
#include "model/files/similar_name.h"
#include "model/tokenizer/text/unicode.h"
#include "parallel/machine/stopwatch.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "  /again              replace the last answer by another one\n"
    "  /reset              begin a new conversation (a system message stays)\n"
    "  /system TEXT        what the model is to be; without TEXT, no system message\n"
    "  /set NAME VALUE     change a setting, such as /set temperature 0.2; /set alone lists them\n"
    "  /save FILE          write the conversation as JSON, for /load, --load and render-chat\n"
    "  /load FILE          continue a conversation that /save wrote\n"
    "  /help, /?           this list\n"
    "  /exit, /quit        leave, as does Ctrl-D\n"
    "An empty line, Enter alone, stops an answer; so does Ctrl-C where the program runs without mpirun.\n"
    "A message that begins with a slash is written with two: //etc is a folder";

// Our names first, then those that other programs have for the same.
struct CommandNames {
  std::string_view ours;
  std::vector<std::string_view> others;
};

const std::vector<CommandNames> kCommands = {
    {"/again", {"/regenerate", "/retry"}},
    {"/exit", {"/quit", "/q", "/bye"}},
    {"/help", {"/?", "/h"}},
    {"/load", {}},
    {"/reset", {"/clear", "/new"}},
    {"/save", {}},
    {"/set", {}},
    {"/system", {}},
};

// Our name of a command; empty if there is no such command.
std::string_view find_command(std::string_view word) {
  const auto found = std::ranges::find_if(kCommands, [&](const CommandNames& names) {
    return names.ours == word || std::ranges::find(names.others, word) != names.others.end();
  });
  return found == kCommands.end() ? "" : found->ours;
}

// "; did you mean /set temperature 0.2?" for "/temperature 0.2".
std::string meant_by(std::string_view line) {
  const std::string word(line.substr(0, line.find(' ')));
  const std::vector<std::string> settings = setting_names();
  if (std::ranges::find(settings, word.substr(1)) != settings.end())
    return fmt::format("did you mean /set {}?", line.substr(1));
  std::vector<std::string> commands;
  for (const CommandNames& names : kCommands) {
    commands.emplace_back(names.ours);
    commands.insert(commands.end(), names.others.begin(), names.others.end());
  }
  const std::string similar = similar_name(word, commands);
  return similar.empty() ? "/help lists them" : fmt::format("did you mean {}?", similar);
}

bool is_one_line(std::string_view text) { return text.find('\n') == std::string_view::npos; }

Json message(const char* role, std::string_view content) {
  return {{"role", role}, {"content", std::string(content)}};
}

Json answer_message(const Message& answer) {
  Json json = message("assistant", answer.text);
  for (const ToolCall& call : answer.calls) {
    const Json function = {{"name", call.name}, {"arguments", call.arguments}};
    json["tool_calls"].push_back({{"id", call.id}, {"type", "function"}, {"function", function}});
  }
  return json;
}

}  // namespace

ChatSession::ChatSession(ChatBackend& backend, Json conversation, ChatOptions options)
    : backend_(backend),
      conversation_(std::move(conversation)),
      options_(std::move(options)),
      input_(open_chat_input(options_.console)) {}

int ChatSession::run() {
  const Interruptions interruptions;
  greet();
  answer_open_message();
  std::string line;
  while (true) {
    const InputEvent event = input_->read(line);
    if (event == InputEvent::interrupted) {
      print_note("\n", options_.console.notes);
      options_.console.note("(/exit or Ctrl-D leaves)");
      continue;
    }
    if (event == InputEvent::end) {
      if (options_.console.has_person) print_note("\n", options_.console.notes);
      break;
    }
    if (line.empty()) continue;
    if (!is_command(line))
      say(is_one_line(line) && line.starts_with("//") ? line.substr(1) : line);
    else if (obey(line) == Next::leave)
      break;
  }
  output_.finish();
  return failed_ ? 1 : 0;
}

void ChatSession::greet() const {
  if (!options_.console.has_person) return;
  const std::size_t context = backend_.max_length();
  options_.console.note(fmt::format("{}{}; /help lists commands", printable(options_.model_name),
                                    context == 0 ? "" : fmt::format(", context of {} tokens", context)));
}

bool ChatSession::is_command(std::string_view message) {
  if (!is_one_line(message)) return message.starts_with("/system ");
  return message.starts_with('/') && !message.starts_with("//");
}

ChatSession::Next ChatSession::obey(std::string_view line) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, space);
  const std::string text = unicode::stripped(line.substr(space), true, true);
  const std::string_view command = find_command(word);
  if (command == "/exit") return Next::leave;
  if (command == "/help")
    options_.console.note(kHelp);
  else if (command == "/reset")
    reset();
  else if (command == "/system")
    set_system(text);
  else if (command == "/save")
    save(text);
  else if (command == "/load")
    load(text);
  else if (command == "/again")
    answer_again();
  else if (command == "/set")
    change(text);
  else
    complain(fmt::format("unknown command {}; {}", word, meant_by(line)));
  return Next::go_on;
}

void ChatSession::reset() {
  const bool has_system = !messages().empty() && messages().front().value("role", "") == "system";
  Json kept = Json::array();
  if (has_system) kept.push_back(messages().front());
  messages() = std::move(kept);
}

void ChatSession::set_system(std::string_view text) {
  const bool has_system = !messages().empty() && messages().front().value("role", "") == "system";
  if (has_system) messages().erase(messages().begin());
  if (!text.empty()) messages().insert(messages().begin(), message("system", text));
}

void ChatSession::save(const std::string& path) {
  try {
    require<RequestError>(!path.empty(), "cannot save the conversation: expected /save FILE, found no FILE");
    require_distinct_files(options_.files.with("/save", path));
    write_messages_file(path, conversation_);
    options_.console.note(fmt::format("{} messages are in {}", messages().size(), path));
  } catch (const RequestError& error) {
    complain(error.what());
  }
}

void ChatSession::load(const std::string& path) {
  try {
    require<RequestError>(!path.empty() && path != "-",
                          "cannot load a conversation: expected /load FILE, found {}",
                          path.empty() ? "no FILE" : "standard input, which has your messages");
    conversation_ = read_messages_file(path);
    options_.console.note(fmt::format("{} messages are from {}", messages().size(), path));
  } catch (const RequestError& error) {
    return complain(error.what());
  }
  answer_open_message();
}

void ChatSession::change(const std::string& setting) {
  if (setting.empty())
    return options_.console.note(fmt::format("settings: {}", fmt::join(setting_names(), ", ")));
  try {
    change_setting(backend_.sampling(), setting);
  } catch (const RequestError& error) {
    complain(error.what());
  }
}

void ChatSession::answer_again() {
  const bool has_answer = messages().size() > 1 && messages().back().value("role", "") == "assistant";
  if (!has_answer) return complain("there is no answer to replace; write a message first");
  const Json before = messages();
  messages().erase(messages().size() - 1);
  answer();
  if (messages().size() < before.size()) messages() = before;  // an answer that fails removes its question
}

void ChatSession::answer_open_message() {
  if (!messages().empty() && messages().back().value("role", "") == "user") answer();
}

void ChatSession::complain(std::string_view error) {
  failed_ = true;
  print_message(fmt::format("tp-infer: {}", error), options_.console.notes);
}

void ChatSession::say(const std::string& text) {
  if (const Json* call = open_call()) {
    Json result = message("tool", text);
    result["tool_call_id"] = call->at("id");
    result["name"] = call->at("function").at("name");
    messages().push_back(std::move(result));
    if (open_call() != nullptr) return ask_for_result();
  } else {
    messages().push_back(message("user", text));
  }
  answer();
}

const Json* ChatSession::open_call() const {
  std::size_t results = 0;
  while (results < messages().size() &&
         messages()[messages().size() - 1 - results].value("role", "") == "tool")
    ++results;
  if (results == messages().size()) return nullptr;
  const Json& said = messages()[messages().size() - 1 - results];
  const auto calls = said.find("tool_calls");
  const bool is_open = calls != said.end() && calls->is_array() && results < calls->size();
  return is_open ? &(*calls)[results] : nullptr;
}

void ChatSession::ask_for_result() const {
  if (const Json* call = open_call()) {
    options_.console.note(fmt::format("(the next message is what {} returns)",
                                      call->at("function").at("name").get<std::string>()));
  }
}

// A message without an answer is dropped, so the next message replaces it.
void ChatSession::answer() {
  try {
    const Stopwatch watch;
    const ChatAnswer answer = stream();
    report(answer, watch.seconds());
    messages().push_back(answer_message(answer.message));
    ask_for_result();
  } catch (const RequestError& error) {
    messages().erase(messages().size() - 1);
    complain(error.what());
  }
}

ChatAnswer ChatSession::stream() {
  AnswerPrinter printer(output_, options_.console, options_.is_plain);
  const auto write = [&](const MessagePieces& pieces) { printer.print(pieces); };
  input_->begin_answer();
  try {
    ChatAnswer answer = backend_.answer(conversation_, {write, [&] { return input_->stops_answer(); }});
    printer.finish();
    return answer;
  } catch (const RequestError&) {
    if (printer.has_begun()) printer.finish();
    throw;
  }
}

void ChatSession::report(const ChatAnswer& answer, double seconds) const {
  const Console& console = options_.console;
  if (answer.reason == FinishReason::cancelled) console.note("(stopped)");
  if (answer.reason == FinishReason::length) {
    const std::size_t context = backend_.max_length();
    const std::size_t used = answer.usage ? answer.usage->prompt_tokens + answer.usage->tokens : 0;
    const bool is_full = answer.usage && (answer.usage->tokens < answer.max_tokens || used == context);
    console.note(is_full
                     ? fmt::format("(the context{} is full: /reset begins a new conversation)",
                                   context == 0 ? "" : fmt::format(" of {} tokens", context))
                     : fmt::format("(stopped after {} tokens: --max-tokens allows more)", answer.max_tokens));
  }
  if (!options_.reports_speed) return;
  const std::string timings = answer.timings.empty() ? "" : "; " + answer.timings;
  if (answer.usage) {
    const auto& [prompt_tokens, cached_tokens, tokens] = *answer.usage;
    console.note(fmt::format(
        "(prompt of {} tokens, {} of them cached; {} tokens in {:.2f} s, {:.1f} tokens/s{})", prompt_tokens,
        cached_tokens, tokens, seconds, static_cast<double>(tokens) / seconds, timings));
  } else {
    console.note(fmt::format("({:.2f} s; the server has not counted the tokens{})", seconds, timings));
  }
}

}  // namespace tp
