#include "launch/generate/generate_output.h"

#include "launch/common/message.h"
#include "launch/common/option_names.h"
#include "model/files/json_text.h"
#include "runtime/api/answer_format.h"
#include "runtime/api/openai_response.h"
#include "runtime/api/rounded.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace tp {
namespace {

nlohmann::json logprob_entry(const ScoredToken& token) {
  nlohmann::json top = nlohmann::json::array();
  for (const TokenLogprob& other : token.top)
    top.push_back({{"id", other.id}, {"logprob", rounded(other.logprob)}});
  return {{"id", token.chosen.id}, {"logprob", rounded(token.chosen.logprob)}, {"top", top}};
}

// Returns the milliseconds per token of each activity between `begin` and `end`.
nlohmann::json milliseconds(const TimeParts& begin, const TimeParts& end, std::size_t tokens) {
  const auto each = [&](double from, double to) {
    return tokens == 0 ? 0.0 : rounded(1000 * (to - from) / static_cast<double>(tokens));
  };
  return {{"compute", each(begin.compute, end.compute)},
          {"collectives", each(begin.collectives, end.collectives)},
          {"waiting", each(begin.waiting, end.waiting)},
          {"sampling", each(begin.sampling, end.sampling)},
          {"control", each(begin.control, end.control)}};
}

// Returns the fields that are common to all lines in our own form.
nlohmann::json line_for(const AnswerFacts& facts, std::size_t index, std::size_t sample) {
  nlohmann::json line = {{"index", index}, {"sample", sample}};
  if (!facts.id.is_null()) line["id"] = facts.id;
  return line;
}

// Returns the error, with the line's number if the request is from a batch.
std::string error_at_place(const AnswerFacts& facts, const std::string& error) {
  return facts.where.empty() ? error : fmt::format("{}: {}", facts.where, error);
}

// Whether the continuation ended before max_tokens because the context was full.
bool filled_context(const Completion& completion, const Continuation& continuation) {
  return continuation.finish_reason == FinishReason::length &&
         continuation.token_ids.size() < static_cast<std::size_t>(completion.request.max_tokens);
}

void add_error(nlohmann::json& line, const std::string& error) {
  line["error"] = error;
  line["finish_reason"] = name_of(FinishReason::error);
}

}  // namespace

void GenerateOutput::expect(std::uint64_t id, Completion completion, Written written) {
  const std::size_t samples = written.size();
  completion.continuations.resize(samples);
  answers_.emplace(id, Answer{.index = requests_++,
                              .written = std::move(written),
                              .completion = std::move(completion),
                              .submitted = now(),
                              .first_tokens = std::vector<Moment>(samples),
                              .passes = std::vector<std::size_t>(samples)});
}

void GenerateOutput::fail(const AnswerFacts& facts, const std::string& error) {
  const std::size_t index = requests_++;
  failed_requests_ += 1;
  if (!style_.json) {
    print_message(fmt::format("tp-infer: prompt {}: {}", index + 1, with_flags(error)));
  } else if (facts.form != AnswerFacts::Form::line) {
    write_json(openai_batch_line(facts.id, 400,
                                 openai_error({.status = 400, .message = error_at_place(facts, error)})));
  } else {
    nlohmann::json line = line_for(facts, index, 0);
    add_error(line, error_at_place(facts, error));
    write_json(line);
  }
}

void GenerateOutput::report_failures() const {
  if (!style_.json || failed_requests_ == 0) return;
  print_note(fmt::format("tp-infer: {} of {} requests failed; see `error` in the output\n", failed_requests_,
                         requests_));
}

bool GenerateOutput::begins_or_ends(const std::vector<Event>& events) const {
  return std::any_of(events.begin(), events.end(), [&](const Event& event) {
    const auto* token = std::get_if<TokenEvent>(&event);
    if (token == nullptr) return false;
    const Completion& completion = answers_.at(token->request).completion;
    return token->finish_reason != FinishReason::none ||
           completion.continuations.at(static_cast<std::size_t>(token->sample)).token_ids.empty();
  });
}

void GenerateOutput::add(const TokenEvent& event) {
  const auto found = answers_.find(event.request);
  Answer& answer = found->second;
  const auto sample = static_cast<std::size_t>(event.sample);
  const Continuation& continuation = answer.completion.add(event);
  if (event.finish_reason == FinishReason::error) {
    failed_requests_ += answer.failed ? 0 : 1;
    answer.failed = true;
  } else {
    if (continuation.token_ids.size() == 1) answer.first_tokens[sample] = now();
    generated_tokens_ += 1;
  }
  if (answer.completion.finished()) {
    prompt_tokens_.all += answer.completion.request.prompt.size();
    prompt_tokens_.cached += answer.completion.cached_tokens;
    prompt_tokens_.restored += answer.completion.restored_tokens;
  }
  if (!style_.json) return write_texts();
  const bool is_line = answer.completion.facts.form == AnswerFacts::Form::line;
  if (is_line && continuation.finished() && !answer.written[sample]) write_line(answer, sample);
  if (!answer.completion.finished()) return;
  if (!is_line) write_openai_line(answer);
  answers_.erase(found);
}

void GenerateOutput::add(const PromptLogprobs& logprobs) {
  answers_.at(logprobs.request).completion.add(logprobs);
}

void GenerateOutput::add(const RequestFinished& finished) {
  const auto found = answers_.find(finished.request);
  if (found == answers_.end() || found->second.completion.finished()) return;
  Completion& completion = found->second.completion;
  for (Continuation& continuation : completion.continuations) {
    if (!continuation.finished()) continuation.finish_reason = FinishReason::length;
  }
  prompt_tokens_.all += completion.request.prompt.size();
  completion.cached_tokens = finished.cached_tokens;
  completion.restored_tokens = finished.times.restored_tokens;
  completion.restore_seconds = finished.times.restore_seconds;
  prompt_tokens_.cached += completion.cached_tokens;
  prompt_tokens_.restored += completion.restored_tokens;
  write_openai_line(found->second);
  answers_.erase(found);
}

void GenerateOutput::add(const TokensUnmasked& unmasked) {
  const auto sample = static_cast<std::size_t>(unmasked.sample);
  Answer& answer = answers_.at(unmasked.request);
  answer.passes[sample] = unmasked.pass;
  if (!style_.unmasked) return;
  nlohmann::json line = line_for(answer.completion.facts, answer.index, sample);
  line["pass"] = unmasked.pass;
  for (const auto& [position, id] : unmasked.tokens) {
    nlohmann::json token = {{"position", position}, {"token", id}};
    if (engine_.has_tokenizer()) token["text"] = engine_.decode(std::array{id});
    line["unmasked"].push_back(std::move(token));
  }
  write_json(line);
}

// Writes texts as long as their order allows it.
void GenerateOutput::write_texts() {
  while (!answers_.empty()) {
    Answer& answer = answers_.begin()->second;
    const std::vector<Continuation>& continuations = answer.completion.continuations;
    while (answer.writing < continuations.size()) {
      write_text(answer);
      if (!continuations[answer.writing].finished()) return;
      ++answer.writing;
      answer.written_bytes = 0;
      answer.begun = false;
    }
    answers_.erase(answers_.begin());
  }
}

void GenerateOutput::write_text(Answer& answer) {
  const Continuation& continuation = answer.completion.continuations[answer.writing];
  if (!continuation.error.empty()) {
    print_message(fmt::format("tp-infer: prompt {}: {}", answer.index + 1, with_flags(continuation.error)));
  }
  std::string out;
  if (!answer.begun) {
    // Nothing is written before the first token, because an error may come instead.
    if (continuation.token_ids.empty()) return;
    answer.begun = true;
    if (style_.headings) out += heading_of(answer);
    out += answer.completion.facts.echo;
  }
  if (engine_.has_tokenizer()) {
    out += continuation.text.substr(answer.written_bytes);
    answer.written_bytes = continuation.text.size();
  } else if (continuation.finished()) {
    out += nlohmann::json(continuation.token_ids).dump();
  }
  if (continuation.finished()) out += "\n";
  file_.write(out);
  if (!filled_context(answer.completion, continuation)) return;
  print_message(fmt::format("tp-infer: prompt {}: stopped after {} tokens, because the context of {} is full",
                            answer.index + 1, continuation.token_ids.size(),
                            engine_.info().options.max_length));
}

std::string GenerateOutput::heading_of(const Answer& answer) {
  const char* const space = headed_ ? "\n" : "";
  headed_ = true;
  if (answer.completion.continuations.size() == 1)
    return fmt::format("{}--- prompt {} ---\n", space, answer.index + 1);
  return fmt::format("{}--- prompt {}, sample {} ---\n", space, answer.index + 1, answer.writing + 1);
}

void GenerateOutput::write_line(const Answer& answer, std::size_t sample) const {
  const Continuation& continuation = answer.completion.continuations[sample];
  nlohmann::json line = line_for(answer.completion.facts, answer.index, sample);
  if (!continuation.error.empty()) {
    add_error(line, error_at_place(answer.completion.facts, continuation.error));
  } else {
    line["text"] = engine_.has_tokenizer() ? nlohmann::json(continuation.text) : nlohmann::json(nullptr);
    line["token_ids"] = continuation.token_ids;
    line["finish_reason"] = name_of(continuation.finish_reason);
    if (!continuation.stop_reason.is_null()) line["stop_reason"] = continuation.stop_reason;
    line["sampling"] = answer.completion.settings();
    if (answer.passes[sample] > 0) line["passes"] = answer.passes[sample];
    line["timings"] = timings_of(answer, sample);
    for (const ScoredToken& token : continuation.logprobs) line["logprobs"].push_back(logprob_entry(token));
  }
  write_json(line);
}

nlohmann::json GenerateOutput::timings_of(const Answer& answer, std::size_t sample) const {
  const std::size_t generated = answer.completion.continuations[sample].token_ids.size();
  const Moment& first_token = answer.first_tokens[sample];
  const double decode_seconds = now_ - first_token.seconds;
  nlohmann::json timings = {
      {"load_s", rounded(engine_.info().load_time.count())},
      {"prompt_tokens", answer.completion.request.prompt.size()},
      {"cache_n", answer.completion.cached_tokens},
      {"generated_tokens", generated},
      {"first_token_s", rounded(first_token.seconds - answer.submitted.seconds)},
      {"decode_s", rounded(decode_seconds)},
      {"decode_tokens_per_s", generated > 1 && decode_seconds > 0
                                  ? rounded(static_cast<double>(generated - 1) / decode_seconds)
                                  : 0.0},
      {"first_token_ms", milliseconds(answer.submitted.time, first_token.time, 1)},
      {"ms_per_token", milliseconds(first_token.time, time_, generated - 1)}};
  if (answer.completion.restored_tokens > 0) {
    timings["kv_store_n"] = answer.completion.restored_tokens;
    timings["kv_store_ms"] = rounded(1000 * answer.completion.restore_seconds);
  }
  const Continuation& continuation = answer.completion.continuations[sample];
  if (continuation.drafted_tokens > 0) {
    timings["drafted_tokens"] = continuation.drafted_tokens;
    timings["accepted_tokens"] = continuation.accepted_tokens;
  }
  return timings;
}

void GenerateOutput::write_openai_line(const Answer& answer) const {
  const AnswerFacts& facts = answer.completion.facts;
  const std::vector<Continuation>& continuations = answer.completion.continuations;
  const auto failed = std::find_if(
      continuations.begin(), continuations.end(),
      [](const Continuation& continuation) { return continuation.finish_reason == FinishReason::error; });
  if (failed != continuations.end())
    return write_json(openai_batch_line(
        facts.id, 500, openai_error({.status = 500, .message = error_at_place(facts, failed->error)})));
  write_json(openai_batch_line(facts.id, 200, openai_body(answer.completion, engine_, style_.model)));
}

void GenerateOutput::write_json(const nlohmann::ordered_json& line) const {
  file_.write(json_text(line) + "\n");
}

}  // namespace tp
