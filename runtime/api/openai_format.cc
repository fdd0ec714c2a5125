// OpenAI's chat completions and text completions.
#include "runtime/api/answer_format.h"
#include "runtime/api/openai_response.h"
#include "runtime/api/rounded.h"
#include "tp/engine.h"
#include "tp/version.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Form = ApiRequest::Form;

std::string fingerprint() { return fmt::format("tp-infer-{}", kVersion); }

// llama.cpp's names, and additional parts of a step that exist only with several ranks.
Json timings_of(const Answer& answer) {
  const AnswerTimes& times = answer.times;
  const auto ms = [](double seconds) { return rounded(seconds * 1e3); };
  const auto rate = [](std::size_t tokens, double seconds) {
    return seconds > 0 ? rounded(static_cast<double>(tokens) / seconds) : 0.0;
  };
  const std::size_t cached = answer.cached_tokens();
  const std::size_t computed = answer.prompt_tokens() - cached;
  const std::size_t generated = answer.generated_tokens();
  // Prefill computes each prompt's first token.
  const std::size_t decoded =
      generated > answer.completions.size() ? generated - answer.completions.size() : 0;
  Json timings = {{"queued_ms", ms(times.queued)},
                  {"cache_n", cached},
                  {"prompt_n", computed},
                  {"prompt_ms", ms(times.prefill)},
                  {"prompt_per_second", rate(computed, times.prefill)},
                  {"predicted_n", generated},
                  {"predicted_ms", ms(times.decode)},
                  {"predicted_per_second", rate(decoded, times.decode)},
                  {"compute_ms", ms(times.compute)},
                  {"collectives_ms", ms(times.collectives)},
                  {"waiting_ms", ms(times.waiting)}};
  if (times.restored_tokens > 0) {
    timings["kv_store_n"] = times.restored_tokens;
    timings["kv_store_ms"] = ms(times.restoring);
  }
  if (const std::size_t drafted = answer.sum(&Continuation::drafted_tokens); drafted > 0) {
    timings["draft_n"] = drafted;
    timings["draft_n_accepted"] = answer.sum(&Continuation::accepted_tokens);
  }
  return timings;
}

Json answer_usage(const Answer& answer) {
  return openai_usage(answer.prompt_tokens(), answer.cached_tokens(), answer.generated_tokens(),
                      answer.sum(&Continuation::reasoning_tokens));
}

void add_text(Json& delta, const char* name, const std::string& text) {
  delta[name] = delta.value(name, std::string()) + text;
}

// `warnings` is not part of OpenAI's API.
void add_warnings(const Answer& answer, Json& body) {
  if (!answer.call.warnings.empty()) body["warnings"] = answer.call.warnings;
}

Form form_of(const Answer& answer) { return answer.completions.front().facts.form; }
bool is_chat(const Answer& answer) { return form_of(answer) == Form::chat_completion; }

class OpenAiFormat final : public AnswerFormat {
 public:
  explicit OpenAiFormat(const Engine& engine) : engine_(engine) {}

  const char* id_prefix() const override { return "chatcmpl-"; }
  Json body(const Answer& answer) const override;
  std::string begin(const Answer&) override { return ""; }
  std::string token(const Answer& answer, std::size_t prompt, const TokenEvent& event) override;
  std::string progress(const Answer& answer, std::size_t total, std::size_t cached,
                       std::size_t processed) override;
  std::string end(const Answer& answer) override;
  Json error(const ApiError& error) const override { return openai_error(error); }
  std::string error_event(const ApiError& error) const override { return sse_event(openai_error(error)); }

 private:
  // State of a choice in a stream.
  struct Choice {
    bool has_begun = false;
    std::size_t echoed = 0;  // characters of the prompt, added to text_offset
    TokenPlaces places{};
    int calls = 0;            // calls begun so far
    bool takes_text = false;  // the last call has a text instead of arguments
  };

  Json head(const Answer& answer, bool is_chunk) const;
  std::string chunk(const Answer& answer, Json choice);
  Choice& choice_at(std::size_t index);
  std::string first(const Answer& answer, std::size_t prompt, std::size_t index);
  static Json delta_of(const MessagePieces& pieces, Choice& choice);
  std::string last(const Answer& answer, const Continuation& continuation, std::size_t index);

  const Engine& engine_;
  bool has_warned_ = false;  // warnings are in the first chunk
  std::vector<Choice> choices_;
};

Json OpenAiFormat::head(const Answer& answer, bool is_chunk) const {
  const char* const object = !is_chat(answer) ? "text_completion"
                             : is_chunk       ? "chat.completion.chunk"
                                              : "chat.completion";
  return {{"id", answer.id},
          {"object", object},
          {"created", answer.created},
          {"model", answer.model},
          {"system_fingerprint", fingerprint()}};
}

Json OpenAiFormat::body(const Answer& answer) const {
  Json choices = Json::array();
  for (std::size_t prompt = 0; prompt < answer.completions.size(); ++prompt) {
    for (const Continuation& continuation : answer.completions[prompt].continuations) {
      Json choice = openai_choice(form_of(answer), engine_, continuation, choices.size());
      if (answer.completions[prompt].facts.repeats_prompt)
        add_echo(engine_, answer.completions[prompt], choice);
      if (answer.call.return_token_ids) choice["token_ids"] = continuation.token_ids;
      choices.push_back(std::move(choice));
    }
  }
  Json body = head(answer, false);
  body["choices"] = std::move(choices);
  body["usage"] = answer_usage(answer);
  body["timings"] = timings_of(answer);
  add_warnings(answer, body);
  return body;
}

std::string OpenAiFormat::chunk(const Answer& answer, Json choice) {
  Json body = head(answer, true);
  body["choices"] = Json::array({std::move(choice)});
  if (!std::exchange(has_warned_, true)) add_warnings(answer, body);
  return sse_event(body);
}

OpenAiFormat::Choice& OpenAiFormat::choice_at(std::size_t index) {
  if (choices_.size() <= index) choices_.resize(index + 1);
  return choices_[index];
}

// The part before a choice's first token. It is sent with that token, because clients measure the time to the
// first chunk.
std::string OpenAiFormat::first(const Answer& answer, std::size_t prompt, std::size_t index) {
  Choice& choice = choice_at(index);
  if (choice.has_begun) return "";
  choice.has_begun = true;
  if (is_chat(answer)) {
    return chunk(answer, {{"index", index},
                          {"delta", {{"role", "assistant"}, {"content", ""}}},
                          {"logprobs", nullptr},
                          {"finish_reason", nullptr}});
  }
  if (!answer.completions[prompt].facts.repeats_prompt) return "";
  Json echoed = {{"index", index}, {"text", ""}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
  choice.echoed = add_echo(engine_, answer.completions[prompt], echoed);
  return chunk(answer, std::move(echoed));
}

// Puts everything that a token adds into one chunk, because clients measure the times between chunks.
Json OpenAiFormat::delta_of(const MessagePieces& pieces, Choice& choice) {
  using Kind = MessagePiece::Kind;
  Json delta = Json::object();
  const auto calls = [&]() -> Json& { return delta["tool_calls"]; };
  for (const MessagePiece& piece : pieces) {
    if (piece.kind == Kind::text) add_text(delta, "content", piece.text);
    if (piece.kind == Kind::reasoning) add_text(delta, "reasoning_content", piece.text);
    if (piece.kind == Kind::call) {
      choice.takes_text = piece.takes_text;
      Json call = {{"index", choice.calls++}};
      call.update(openai_tool_call(piece.id, piece.text, "", piece.takes_text));
      calls().push_back(std::move(call));
    } else if (piece.kind == Kind::arguments) {
      const char* const tool = choice.takes_text ? "custom" : "function";
      const char* const text = choice.takes_text ? "input" : "arguments";
      if (calls().empty()) calls().push_back({{"index", choice.calls - 1}, {tool, {{text, ""}}}});
      add_text(calls().back()[tool], text, piece.text);
    }
  }
  if (delta.empty()) delta["content"] = "";
  return delta;
}

std::string OpenAiFormat::last(const Answer& answer, const Continuation& continuation, std::size_t index) {
  Json last = {{"index", index}};
  if (is_chat(answer))
    last["delta"] = Json::object();
  else
    last["text"] = "";
  last["logprobs"] = nullptr;
  last["finish_reason"] = std::string(continuation.finish_name());
  if (!continuation.stop_reason.is_null()) last["stop_reason"] = Json(continuation.stop_reason);
  return chunk(answer, std::move(last));
}

std::string OpenAiFormat::token(const Answer& answer, std::size_t prompt, const TokenEvent& event) {
  const Completion& completion = answer.completions[prompt];
  const std::size_t index = prompt * completion.continuations.size() + static_cast<std::size_t>(event.sample);
  std::string events = first(answer, prompt, index);
  Choice& choice = choice_at(index);
  const bool ended = event.finish_reason != FinishReason::none;
  Continuation piece;
  piece.finish_reason = event.finish_reason;
  if (event.logprob) piece.logprobs.push_back({*event.logprob, event.top_logprobs});

  const Continuation& continuation = completion.continuations[static_cast<std::size_t>(event.sample)];
  // The token that ends a text often adds no text. Completions score it all the same.
  const bool is_scored = !is_chat(answer) && event.logprob.has_value();
  if (!ended || !event.text.empty() || !continuation.news.empty() || is_scored) {
    Json json = {{"index", index}};
    if (is_chat(answer))
      json["delta"] = delta_of(continuation.news, choice);
    else
      json["text"] = event.text;
    json["logprobs"] = openai_logprobs(form_of(answer), engine_, piece, choice.places, choice.echoed);
    json["finish_reason"] = nullptr;
    if (answer.call.return_token_ids) json["token_ids"] = {event.token};
    events += chunk(answer, std::move(json));
  }
  return ended ? events + last(answer, continuation, index) : events;
}

std::string OpenAiFormat::progress(const Answer& answer, std::size_t total, std::size_t cached,
                                   std::size_t processed) {
  Json body = head(answer, true);
  body["choices"] = Json::array();
  body["prompt_progress"] = {{"total", total}, {"cache", cached}, {"processed", processed}};
  return sse_event(body);
}

std::string OpenAiFormat::end(const Answer& answer) {
  std::string events;
  // Choices without tokens.
  for (std::size_t prompt = 0; prompt < answer.completions.size(); ++prompt) {
    const std::size_t samples = answer.completions[prompt].continuations.size();
    for (std::size_t index = prompt * samples; index < (prompt + 1) * samples; ++index) {
      if (choice_at(index).has_begun) continue;
      events += first(answer, prompt, index);
      events += last(answer, answer.completions[prompt].continuations[index - prompt * samples], index);
    }
  }
  if (answer.call.include_usage) {
    Json body = head(answer, true);
    body["choices"] = Json::array();
    body["usage"] = answer_usage(answer);
    body["timings"] = timings_of(answer);
    events += sse_event(body);
  }
  return events + "data: [DONE]\n\n";
}

}  // namespace

std::unique_ptr<AnswerFormat> make_openai_format(const Engine& engine) {
  return std::make_unique<OpenAiFormat>(engine);
}

}  // namespace tp
