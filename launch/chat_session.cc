#include "launch/chat_session.h"

#include "launch/interruptions.h"
#include "launch/message.h"
#include "launch/messages_file.h"
#include "model/tokenizer/unicode.h"
#include "parallel/stopwatch.h"
#include "tp/internal/require.h"

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "  /reset         begin a new conversation (a system message stays)\n"
    "  /system TEXT   what the model is to be; without TEXT, no system message\n"
    "  /save FILE     write the conversation as JSON, for --load and render-chat\n"
    "  /help          this list\n"
    "  /exit          leave, as does Ctrl-D\n"
    "An empty line, Enter alone, stops an answer; so does Ctrl-C where the program runs without mpirun.\n"
    "A message that begins with a slash is written with two: //etc is a folder";

bool is_one_line(std::string_view text) { return text.find('\n') == std::string_view::npos; }

Json message(const char* role, std::string_view content) {
  return {{"role", role}, {"content", std::string(content)}};
}

}  // namespace

ChatSession::ChatSession(Engine& engine, ChatTemplate chat_template, Json conversation, ChatOptions options)
    : engine_(engine),
      prompts_(engine, std::move(chat_template)),
      conversation_(std::move(conversation)),
      options_(std::move(options)),
      input_(open_chat_input(options_.console)) {}

int ChatSession::run() {
  const Interruptions interruptions;
  // A conversation that was loaded may wait for its answer.
  if (!messages().empty() && messages().back().value("role", "") == "user") answer();
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

bool ChatSession::is_command(std::string_view message) {
  if (!is_one_line(message)) return message.starts_with("/system ");
  return message.starts_with('/') && !message.starts_with("//");
}

ChatSession::Next ChatSession::obey(std::string_view line) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string_view command = line.substr(0, space);
  const std::string text = unicode::stripped(line.substr(space), true, true);
  if (command == "/exit") return Next::leave;
  if (command == "/help")
    options_.console.note(kHelp);
  else if (command == "/reset")
    reset();
  else if (command == "/system")
    set_system(text);
  else if (command == "/save")
    save(text);
  else
    complain(fmt::format("there is no command {}; /help lists them", command));
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
    write_messages_file(path, conversation_);
    options_.console.note(fmt::format("{} messages are in {}", messages().size(), path));
  } catch (const RequestError& error) {
    complain(error.what());
  }
}

void ChatSession::complain(std::string_view error) {
  failed_ = true;
  print_message(fmt::format("tp-infer: {}", error), options_.console.notes);
}

void ChatSession::say(const std::string& text) {
  messages().push_back(message("user", text));
  answer();
}

// A message without an answer is dropped: the next one replaces it.
void ChatSession::answer() {
  try {
    const MarkedText prompt = prompts_.prompt_of(conversation_);
    Request request = options_.sampling.make_request(engine_.info().default_sampling);
    request.prompt = encode(prompt);
    request.stop_token_ids = prompts_.stop_ids();
    const std::vector<TokenId> ids = request.prompt;
    const std::size_t room = engine_.info().max_length;
    require<RequestError>(
        ids.size() < room,
        "the conversation has {} tokens, but the model's context holds {}; /reset begins a new one",
        ids.size(), room);
    const auto max_tokens = static_cast<std::size_t>(request.max_tokens);
    const Stopwatch watch;
    const Answer answer = stream(std::move(request));
    report(answer, ids.size(), max_tokens, watch.seconds());
    remember(prompt, ids, answer);
    messages().push_back(message("assistant", answer.text));
  } catch (const RequestError& error) {
    messages().erase(messages().size() - 1);
    complain(error.what());
  }
}

ChatSession::Answer ChatSession::stream(Request request) {
  input_->begin_answer();
  const std::uint64_t id = engine_.submit(std::move(request));
  Answer answer;
  while (engine_.has_work()) {
    for (const TokenEvent& event : engine_.step()) {
      require<RequestError>(event.finish_reason != FinishReason::error, "{}", event.error);
      output_.write(event.text);
      answer.text += event.text;
      answer.ids.push_back(event.token);
      answer.cached_tokens = event.cached_tokens;
      answer.reason = event.finish_reason;
    }
    if (engine_.has_work() && input_->stops_answer()) {
      engine_.cancel(id);
      answer.reason = FinishReason::cancelled;
    }
  }
  output_.write("\n");
  return answer;
}

void ChatSession::report(const Answer& answer, std::size_t prompt_tokens, std::size_t max_tokens,
                         double seconds) const {
  const Console& console = options_.console;
  if (answer.reason == FinishReason::cancelled) console.note("(stopped)");
  if (answer.reason == FinishReason::length && answer.ids.size() == max_tokens)
    console.note(fmt::format("(stopped after {} tokens: --max-tokens allows more)", max_tokens));
  else if (answer.reason == FinishReason::length)
    console.note(fmt::format("(the context of {} tokens is full: /reset begins a new conversation)",
                             engine_.info().max_length));
  if (options_.reports_speed) {
    console.note(fmt::format(
        "(prompt of {} tokens, {} of them cached; {} tokens in {:.2f} s, {:.1f} tokens/s)", prompt_tokens,
        answer.cached_tokens, answer.ids.size(), seconds, static_cast<double>(answer.ids.size()) / seconds));
  }
}

std::vector<TokenId> ChatSession::encode(const MarkedText& text) const {
  // What is input must be the same, too, or a message could repeat an earlier turn with its control tokens.
  if (!said_.empty() && text.size() >= said_.size() && text.substr(0, said_.size()) == said_) {
    // A control token ends the text, so that no token can span its end.
    const std::vector<TokenId> rest = engine_.encode(text.substr(said_.size()));
    if (!rest.empty() && engine_.is_special(rest.front())) {
      std::vector<TokenId> ids = said_ids_;
      ids.insert(ids.end(), rest.begin(), rest.end());
      return ids;
    }
  }
  return engine_.encode(text);
}

void ChatSession::remember(MarkedText prompt, std::vector<TokenId> ids, const Answer& answer) {
  said_ = {};
  // These leave tokens whose text was not printed.
  if (answer.reason == FinishReason::cancelled || !options_.sampling.stop.empty()) return;
  said_ = std::move(prompt);
  said_.append_input(answer.text);
  ids.insert(ids.end(), answer.ids.begin(), answer.ids.end());
  if (answer.reason == FinishReason::stop) ids.pop_back();  // the template writes it
  said_ids_ = std::move(ids);
}

}  // namespace tp
