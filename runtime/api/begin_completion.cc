#include "runtime/api/begin_completion.h"

#include "runtime/api/request_fields.h"
#include "tp/internal/prompt_too_long.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace tp {
namespace {

// Refuses texts that must be too long before they are tokenized, because tokenizing megabytes takes seconds.
void require_short(std::size_t bytes, const Engine& engine) {
  constexpr std::size_t kMaxTokenBytes = 512;
  constexpr std::size_t kUsualTokenBytes = 4;
  const std::size_t maximum = engine.info().options.max_length;
  if (bytes <= maximum * kMaxTokenBytes) return;
  throw PromptTooLongError(
      fmt::format("prompt has {} bytes but a sequence has at most {} tokens (max_position_embeddings, or "
                  "`max_length`); shorten the prompt",
                  bytes, maximum),
      bytes / kUsualTokenBytes, maximum);
}

// Adds the chat template's markers to a thinking limit. A default limit is dropped if the model does not
// think, or if a constraint allows no thinking before its text.
void complete_thinking(Request& request, bool is_asked, const ChatPrompts* chat, const MarkedText& prompt) {
  if (!request.thinking) return;
  std::optional<ThinkingLimit> limit;
  if (request.constraint && request.constraint_frame.empty() && !is_asked) return request.thinking.reset();
  if (chat != nullptr) limit = chat->thinking_limit(request.thinking->max_tokens, prompt);
  require<RequestError>(limit || !is_asked,
                        "`max_thinking_tokens` (`budget_tokens` of `thinking`): expected a chat with a model "
                        "that thinks, found none: "
                        "its chat template has no "
                        "markers of thinking; leave it out");
  request.thinking = std::move(limit);
}

// A request with `beams` uses the model's defaults for other search settings, and is greedy unless it sets
// otherwise.
void begin_search(const nlohmann::json& settings, const BeamSearch& defaults, Request& request) {
  if (!settings.contains("beams")) return;
  if (!request.beam_search) request.beam_search = defaults;
  if (settings.at("beams") != 1) request.sampling.temperature = 0.0F;
}

void add_chat(const ApiRequest& asked, const Engine& engine, const ChatPrompts& chat,
              Completion& completion) {
  Request& request = completion.request;
  const MarkedText text = chat.prompt_of(*asked.conversation);
  require_short(text.size(), engine);
  request.prompt = engine.encode(text);
  const std::vector<TokenId>& ends = chat.stop_ids();
  request.stop_token_ids.insert(request.stop_token_ids.end(), ends.begin(), ends.end());
  AnswerSyntax syntax = chat.syntax_of(*asked.conversation, text, asked.calls);
  if (asked.thinks_if_able && syntax.syntax.thinking.empty()) request.thinking.reset();
  const bool limits_thinking = request.thinking && asked.settings.contains("max_thinking_tokens");
  // Batch lines return the text unchanged, and a constraint holds from its first token, unless the line also
  // limits thinking.
  const bool is_line = asked.facts.form != ApiRequest::Form::chat_completion;
  if (!is_line || (request.constraint && limits_thinking)) {
    chat.hold(*asked.conversation, asked.calls, request, syntax);
    request.visible_token_ids = chat.visible_ids();
  }
  if (!is_line) completion.syntax = std::move(syntax);
  complete_thinking(request, limits_thinking, &chat, text);
}

// Compiles the constraint on the caller's thread, and names the client's member in errors.
void compile_constraint(const Engine& engine, const Completion& completion) {
  try {
    engine.compile_constraint(completion.request);
  } catch (const RequestError& error) {
    const std::string& member = completion.constraint_member;
    throw_error<RequestError>("`{}`: {}", member.empty() ? "constraint" : member, error.what());
  }
}

}  // namespace

void choose_model(const std::string& model, const Engine& engine, Request& request) {
  const std::vector<AdapterInfo>& adapters = engine.info().adapters;
  if (model.empty() || adapters.empty()) return;
  if (std::ranges::find(adapters, model, &AdapterInfo::name) != adapters.end()) {
    request.adapter = model;
    return;
  }
  const std::filesystem::path& path = engine.info().options.model;
  const std::string own = (path / "").parent_path().filename().string();
  require<RequestError>(
      model == own, "`model`: expected one of the adapters or {}, found {}; choose one of them", own, model);
  request.adapter = "";
}

int default_max_tokens(const EngineInfo& info, const Request& request, int otherwise) {
  if (info.kind == ModelKind::diffusion) return otherwise;
  const bool is_seq2seq = info.kind == ModelKind::seq2seq;
  const std::size_t begun =
      is_seq2seq ? std::max<std::size_t>(request.decoder_prompt.size(), 1) : request.prompt.size();
  const std::optional<std::size_t> max = info.generation.max_tokens(begun);
  if (!max) return otherwise;
  const std::size_t room = std::min(info.options.max_length, info.options.cache_tokens);
  return static_cast<int>(std::min(*max, room - std::min(room - 1, begun)));
}

std::vector<TokenId> encode_prompt(const std::string& text, const Engine& engine) {
  require_short(text.size(), engine);
  return engine.encode(text);
}

void complete_request(Completion& completion, const Engine& engine) {
  Request& request = completion.request;
  // The answer contains the seed, which makes every result reproducible.
  if (!request.sampling.seed && !request.sampling.greedy()) request.sampling.seed = draw_seed();
  compile_constraint(engine, completion);
  if (request.max_tokens_is_default)
    request.max_tokens = default_max_tokens(engine.info(), request, request.max_tokens);
}

Completion begin_completion(const ApiRequest& asked, Request defaults, const Engine& engine,
                            const ChatPrompts* chat) {
  require<RequestError>(asked.error.empty(), "{}", asked.error);
  require<RequestError>(
      asked.facts.form == ApiRequest::Form::line || engine.has_tokenizer(),
      "answers in OpenAI's form are texts, but the model has no tokenizer; give token ids in `ids`");
  Completion completion{
      .facts = asked.facts, .request = std::move(defaults), .constraint_member = asked.constraint_member};
  Request& request = completion.request;
  begin_search(asked.settings, engine.info().generation.beams, request);
  set_fields(asked.settings, request);
  if (asked.settings.contains("max_tokens")) request.max_tokens_is_default = false;
  if (asked.settings.contains("stop_token_ids")) completion.asked_stops = request.stop_token_ids;
  const bool has_constraint = request.constraint.has_value();
  if (asked.conversation) {
    require<RequestError>(chat != nullptr, "cannot make a prompt of `messages`: there is no chat template");
    add_chat(asked, engine, *chat, completion);
  } else {
    request.prompt = asked.ids ? *asked.ids : encode_prompt(asked.text, engine);
    complete_thinking(request, asked.settings.contains("max_thinking_tokens"), nullptr, MarkedText());
  }
  if (asked.facts.repeats_prompt && request.sampling.logprobs >= 0 && request.prompt.size() > 1) {
    request.score_from = 1;
    request.score_top = request.sampling.logprobs;
  }
  // A request that generates no tokens must have some output, so it asks for a candidate at its last token.
  const bool asks_for_none = asked.settings.contains("max_tokens") && request.max_tokens == 0;
  if (asks_for_none && asked.facts.form != ApiRequest::Form::line && !request.asks_about_prompt() &&
      !request.prompt.empty()) {
    request.candidates_at = {request.prompt.size() - 1};
    request.candidates = 1;
  }
  if (request.constraint && !has_constraint) completion.constraint_member = kCallsMember;
  complete_request(completion, engine);
  return completion;
}

}  // namespace tp
