#include "runtime/api/openai_response.h"

#include "model/tokenizer/text/utf8.h"
#include "runtime/api/rounded.h"

#include <algorithm>
#include <ctime>
#include <random>
#include <span>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Form = ApiRequest::Form;

// The bytes that a token adds to a text; control tokens add none.
std::string bytes_of(const Engine& engine, TokenId id) {
  return engine.is_special(id) ? "" : engine.bytes_of(id);
}

// OpenAI writes a token that is only part of a character as bytes, with a prefix in completions.
std::string shown_token(const std::string& bytes, const char* prefix) {
  if (utf8::is_valid(bytes)) return bytes;
  std::string shown = prefix;
  for (const char byte : bytes) shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return shown;
}

// Control tokens have their spelling in the vocabulary, although they add no text.
std::string shown_in_completion(const Engine& engine, TokenId id) {
  const std::string bytes = engine.bytes_of(id);
  return bytes.empty() ? fmt::format("token_id:{}", id) : shown_token(bytes, "bytes:");
}

// The tokens of a message, without a final control token, as in OpenAI's chats.
std::span<const ScoredToken> shown(const Continuation& continuation, const Engine& engine) {
  const std::span<const ScoredToken> all = continuation.logprobs;
  const bool has_end = continuation.finish_reason == FinishReason::stop && !all.empty() &&
                       engine.is_special(all.back().chosen.id);
  return all.first(all.size() - (has_end ? 1 : 0));
}

Json chat_logprob(const Engine& engine, const TokenLogprob& token) {
  const std::string text = bytes_of(engine, token.id);
  Json bytes = Json::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", shown_token(text, "")}, {"logprob", rounded(token.logprob)}, {"bytes", std::move(bytes)}};
}

Json chat_logprobs(const Engine& engine, const Continuation& continuation) {
  if (continuation.logprobs.empty()) return nullptr;
  Json content = Json::array();
  for (const ScoredToken& token : shown(continuation, engine)) content.push_back(scored_token(engine, token));
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

// The most likely tokens at the place of the token `chosen`, by their spelling. If two of them are spelled
// alike, `chosen` or else the likelier one keeps the spelling, and the other one is shown as its id.
Json texts_of(const Engine& engine, const std::vector<TokenLogprob>& tokens, TokenId chosen) {
  const std::string spelling = shown_in_completion(engine, chosen);
  const bool has_chosen = std::ranges::find(tokens, chosen, &TokenLogprob::id) != tokens.end();
  Json texts = Json::object();
  for (const TokenLogprob& token : tokens) {
    std::string text = shown_in_completion(engine, token.id);
    const bool is_taken = texts.contains(text) || (has_chosen && token.id != chosen && text == spelling);
    if (is_taken) text = fmt::format("token_id:{}", token.id);
    texts[text] = rounded(token.logprob);
  }
  return texts;
}

// The most likely tokens at a place in the prompt, whose token is `chosen`.
Json top_of(const Engine& engine, const Completion& completion, std::size_t place, TokenId chosen) {
  return place < completion.prompt_top.size() ? texts_of(engine, completion.prompt_top[place], chosen)
                                              : Json::object();
}

Json no_tokens() {
  return {{"tokens", Json::array()},
          {"token_logprobs", Json::array()},
          {"top_logprobs", Json::array()},
          {"text_offset", Json::array()}};
}

Json text_logprobs(const Engine& engine, const Continuation& continuation, TokenPlaces& places,
                   std::size_t offset) {
  if (continuation.logprobs.empty()) return nullptr;
  Json lists = no_tokens();
  for (const ScoredToken& token : continuation.logprobs) {
    lists["tokens"].push_back(shown_in_completion(engine, token.chosen.id));
    lists["token_logprobs"].push_back(rounded(token.chosen.logprob));
    lists["top_logprobs"].push_back(texts_of(engine, token.top, token.chosen.id));
    lists["text_offset"].push_back(offset + places.place_of(bytes_of(engine, token.chosen.id)));
  }
  return lists;
}

Json message_of(const Message& message) {
  Json json = {{"role", "assistant"}, {"content", message.text}};
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  if (message.calls.empty()) return json;
  if (message.text.empty()) json["content"] = nullptr;
  json["tool_calls"] = Json::array();
  for (const ToolCall& call : message.calls)
    json["tool_calls"].push_back(openai_tool_call(call.id, call.name, call.arguments, call.takes_text));
  return json;
}

}  // namespace

Json scored_token(const Engine& engine, const ScoredToken& token) {
  Json entry = chat_logprob(engine, token.chosen);
  entry["top_logprobs"] = Json::array();
  for (const TokenLogprob& other : token.top) entry["top_logprobs"].push_back(chat_logprob(engine, other));
  return entry;
}

Json openai_tool_call(const std::string& id, const std::string& name, const std::string& arguments,
                      bool takes_text) {
  const char* const type = takes_text ? "custom" : "function";
  const Json tool = {{"name", name}, {takes_text ? "input" : "arguments", arguments}};
  return {{"id", id}, {"type", type}, {type, tool}};
}

Json openai_usage(std::size_t prompt, std::size_t cached, std::size_t generated, std::size_t reasoning) {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", generated},
          {"total_tokens", prompt + generated},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", reasoning}}}};
}

Json openai_logprobs(Form form, const Engine& engine, const Continuation& continuation, TokenPlaces& places,
                     std::size_t offset) {
  return form == Form::text_completion ? text_logprobs(engine, continuation, places, offset)
                                       : chat_logprobs(engine, continuation);
}

Json openai_choice(Form form, const Engine& engine, const Continuation& continuation, std::size_t index) {
  Json choice = {{"index", index}};
  if (form == Form::text_completion)
    choice["text"] = continuation.text;
  else
    choice["message"] = message_of(continuation.message);
  TokenPlaces places;
  choice["logprobs"] = openai_logprobs(form, engine, continuation, places);
  // Tokens of a stop text are scored, but their text is not part of the answer.
  if (form == Form::text_completion && choice["logprobs"].is_object()) {
    const std::size_t end = count_characters(continuation.text);
    for (Json& place : choice["logprobs"]["text_offset"]) place = std::min(place.get<std::size_t>(), end);
  }
  choice["finish_reason"] = std::string(continuation.finish_name());
  // `stop_reason` is not part of OpenAI's API.
  if (!continuation.stop_reason.is_null()) choice["stop_reason"] = Json(continuation.stop_reason);
  return choice;
}

std::size_t add_echo(const Engine& engine, const Completion& completion, Json& choice) {
  const std::vector<TokenId>& prompt = completion.request.prompt;
  const std::string text = engine.decode(prompt);
  choice["text"] = text + choice.at("text").get<std::string>();
  const std::size_t characters = count_characters(text);
  // The first token of a prompt has no log-probability, and it may be the only token.
  const bool has_logprobs = !completion.prompt_logprobs.empty() ||
                            (prompt.size() == 1 && completion.request.sampling.logprobs >= 0);
  if (!has_logprobs) return characters;
  Json lists = no_tokens();
  std::size_t offset = 0;
  const std::vector<std::string> parts = engine.decode_parts(prompt);
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    // No token predicts the first token.
    const bool is_scored = i > 0 && i - 1 < completion.prompt_logprobs.size();
    lists["tokens"].push_back(shown_in_completion(engine, prompt[i]));
    lists["token_logprobs"].push_back(
        is_scored ? Json(rounded(static_cast<float>(completion.prompt_logprobs[i - 1]))) : Json());
    lists["top_logprobs"].push_back(is_scored ? top_of(engine, completion, i - 1, prompt[i]) : Json());
    lists["text_offset"].push_back(offset);
    offset += count_characters(parts[i]);
  }
  if (const Json later = choice.at("logprobs"); later.is_object()) {
    for (const char* name : {"tokens", "token_logprobs", "top_logprobs"})
      lists[name].insert(lists[name].end(), later.at(name).begin(), later.at(name).end());
    for (const Json& place : later.at("text_offset"))
      lists["text_offset"].push_back(place.get<std::size_t>() + characters);
  }
  choice["logprobs"] = std::move(lists);
  return characters;
}

std::string new_response_id(std::string_view prefix) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, random(), random(), random());
}

Json openai_body(const Completion& completion, const Engine& engine, std::string_view model) {
  const AnswerFacts& facts = completion.facts;
  const bool is_chat = facts.form == Form::chat_completion;
  Json choices = Json::array();
  for (const Continuation& continuation : completion.continuations) {
    choices.push_back(openai_choice(facts.form, engine, continuation, choices.size()));
    if (facts.repeats_prompt) add_echo(engine, completion, choices.back());
  }
  return {
      {"id", new_response_id(is_chat ? "chatcmpl-" : "cmpl-")},
      {"object", is_chat ? "chat.completion" : "text_completion"},
      {"created", static_cast<std::int64_t>(std::time(nullptr))},
      {"model", facts.model.empty() ? std::string(model) : facts.model},
      {"choices", std::move(choices)},
      {"usage", openai_usage(completion.request.prompt.size(), completion.cached_tokens,
                             completion.generated_tokens(), completion.sum(&Continuation::reasoning_tokens))},
      {"sampling", completion.settings()}};
}

Json openai_batch_line(const nlohmann::json& custom_id, int status, Json body) {
  return {{"id", new_response_id("batch_req-")},
          {"custom_id", custom_id},
          {"response",
           {{"status_code", status}, {"request_id", new_response_id("req-")}, {"body", std::move(body)}}},
          {"error", nullptr}};
}

}  // namespace tp
