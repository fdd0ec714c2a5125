#include "tp/chat.h"

#include "model/files/json_fault.h"
#include "model/files/strict_json.h"
#include "runtime/chat/chat_prompts.h"
#include "runtime/chat/openai_messages.h"
#include "tp/engine.h"
#include "tp/internal/require.h"

#include <iterator>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

ChatTurn turn_after(Json conversation, Request request, const CallRules& rules, const ChatPrompts& prompts,
                    const Engine& engine) {
  conversation["messages"] = read_messages(conversation.value("messages", Json()));
  MarkedText prompt = prompts.prompt_of(conversation);
  AnswerSyntax syntax = prompts.complete(conversation, prompt, rules, request);
  request.prompt = engine.encode(prompt);
  return {std::move(request), std::move(prompt), std::move(syntax)};
}

Json parse_conversation(std::string_view text) {
  try {
    Json conversation = parse_strict_json<Json>(text);
    if (conversation.is_object()) return conversation;
    throw JsonError(conversation.type_name());
  } catch (const JsonError& error) {
    throw_error<RequestError>(
        "expected a conversation such as {{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}, "
        "found {}",
        error.what());
  }
}

}  // namespace

AnswerReader::AnswerReader(const AnswerSyntax& syntax) : reader_(make_message_reader(syntax)) {}
AnswerReader::~AnswerReader() = default;
AnswerReader::AnswerReader(AnswerReader&&) noexcept = default;
AnswerReader& AnswerReader::operator=(AnswerReader&&) noexcept = default;

MessagePieces AnswerReader::read(const Event& event) {
  const auto* token = std::get_if<TokenEvent>(&event);
  if (token == nullptr) return {};
  MessagePieces pieces = push(token->text);
  if (token->finish_reason == FinishReason::none) return pieces;
  MessagePieces last = finish(token->finish_reason == FinishReason::stop ? Ending::complete : Ending::cut);
  std::move(last.begin(), last.end(), std::back_inserter(pieces));
  return pieces;
}

MessagePieces AnswerReader::push(std::string_view text) { return add(reader_->push(text)); }
MessagePieces AnswerReader::finish(Ending ending) { return add(reader_->finish(ending)); }

MessagePieces AnswerReader::add(MessagePieces pieces) {
  for (MessagePiece& piece : pieces) message_.add(piece);
  return pieces;
}

ChatTurn::ChatTurn(Request request, MarkedText prompt, AnswerSyntax syntax)
    : request(std::move(request)),
      prompt(std::move(prompt)),
      syntax_(std::make_shared<const AnswerSyntax>(std::move(syntax))) {}

AnswerReader ChatTurn::reader() const { return AnswerReader(*syntax_); }

Message ChatTurn::read(std::string_view answer, Ending ending) const {
  return read_message(*syntax_, answer, ending);
}

Chat::Chat(const Engine& engine, const std::filesystem::path& model,
           const std::filesystem::path& chat_template)
    : engine_(engine),
      prompts_(std::make_unique<const ChatPrompts>(
          engine, ChatTemplate::open(chat_template, model, "give a file as `chat_template`"))) {}
Chat::~Chat() = default;

ChatTurn Chat::turn(const std::vector<ChatMessage>& messages, Request request) const {
  Json list = Json::array();
  for (const ChatMessage& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return turn_after({{"messages", std::move(list)}}, std::move(request), {}, *prompts_, engine_);
}

ChatTurn Chat::turn_from_json(std::string_view conversation, Request request, const CallRules& rules) const {
  try {
    return turn_after(parse_conversation(conversation), std::move(request), rules, *prompts_, engine_);
  } catch (const nlohmann::json::exception& error) {  // a member of the wrong type
    throw_error<RequestError>("cannot read the conversation: {}", json_fault(error));
  }
}

}  // namespace tp
