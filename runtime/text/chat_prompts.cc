#include "runtime/text/chat_prompts.h"

#include "model/tokenizer/unicode.h"
#include "tp/internal/require.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// The rendered text up to the end of the last message's content: what a template writes after it ends the
// message.
MarkedText without_end_of_message(const MarkedText& text, const Json& messages) {
  const Json& content = messages.back().at("content");
  require<RequestError>(content.is_string(),
                        "`continue_final_message`: the last message has no text to continue");
  const std::string last = unicode::stripped(content.get<std::string>(), true, true);
  const std::size_t place = text.text().rfind(last);
  require<RequestError>(
      place != std::string::npos,
      "`continue_final_message`: this model's chat template changes the last message, so that it "
      "cannot be continued; send it as a prompt to completions");
  return text.substr(0, place + last.size());
}

}  // namespace

ChatPrompts::ChatPrompts(const Engine& engine, ChatTemplate chat_template)
    : template_(std::move(chat_template)), stop_ids_(find_stop_ids(engine)) {}

MarkedText ChatPrompts::prompt_of(Json conversation) const {
  const bool continues = conversation.value("continue_final_message", false);
  conversation.erase("continue_final_message");
  const bool begins = conversation.value("add_generation_prompt", !continues);
  require<RequestError>(
      !continues || !begins,
      "`continue_final_message` and `add_generation_prompt` exclude each other; leave one out");
  conversation["add_generation_prompt"] = begins;
  const MarkedText text = template_.render(conversation);
  return continues ? without_end_of_message(text, conversation.at("messages")) : text;
}

// eos_token, and the token that the template writes after an assistant's message, which configurations of
// models fine-tuned for chat often lack.
std::vector<TokenId> ChatPrompts::find_stop_ids(const Engine& engine) const {
  std::vector<TokenId> ids;
  const std::string eos = template_.eos_token();
  if (!eos.empty()) {
    const std::vector<TokenId> tokens = engine.encode(eos, false);
    if (tokens.size() == 1) ids.push_back(tokens.front());
  }
  constexpr std::string_view kAnswer = "[the answer]";
  try {
    const Json exchange = {{{"role", "user"}, {"content", "?"}},
                           {{"role", "assistant"}, {"content", std::string(kAnswer)}}};
    const std::string text = template_.render({{"messages", exchange}}).text();
    const std::size_t place = text.rfind(kAnswer);
    if (place == std::string::npos) return ids;
    const std::string rest =
        unicode::stripped(std::string_view(text).substr(place + kAnswer.size()), true, false);
    const std::vector<TokenId> tokens = engine.encode(rest, false);
    if (!tokens.empty() && engine.is_special(tokens.front())) ids.push_back(tokens.front());
  } catch (const RequestError&) {
    // The template does not accept these messages; only eos_token is known then.
  }
  return ids;
}

}  // namespace tp
