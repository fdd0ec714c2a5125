#include "launch/generate_output.h"

#include "launch/batch_fields.h"
#include "launch/message.h"
#include "launch/rounded.h"
#include "tp/error.h"

#include <algorithm>

namespace tp {
namespace {

nlohmann::json logprob_entry(const TokenEvent& event) {
  nlohmann::json top = nlohmann::json::array();
  for (const TokenLogprob& other : event.top_logprobs)
    top.push_back({{"id", other.id}, {"logprob", rounded(other.logprob)}});
  return {{"id", event.logprob->id}, {"logprob", rounded(event.logprob->logprob)}, {"top", top}};
}

// Where the time from `begin` to `end` went, for each of `tokens`.
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

}  // namespace

void GenerateOutput::expect(std::uint64_t id, const Prompt& prompt, const Request& request) {
  const auto text = std::make_shared<const std::string>(prompt.text);
  const auto sampling = std::make_shared<const nlohmann::json>(fields_of(request));
  for (int sample = 0; sample < request.n; ++sample) {
    places_[{id, sample}] = continuations_.size();
    Continuation continuation;
    continuation.index = requests_;
    continuation.id = prompt.id;
    continuation.sample = sample;
    continuation.alone = request.n == 1;
    continuation.prompt = text;
    continuation.prompt_tokens = request.prompt.size();
    continuation.sampling = sampling;
    continuations_.push_back(std::move(continuation));
  }
  ++requests_;
}

void GenerateOutput::fail(const Prompt& prompt, const std::string& error) {
  Continuation continuation;
  continuation.index = requests_++;
  continuation.id = prompt.id;
  continuation.alone = true;
  continuation.finish_reason = FinishReason::error;
  continuation.error = error;
  failed_requests_.insert(continuation.index);
  continuations_.push_back(std::move(continuation));
  print_ready();
}

void GenerateOutput::report_failures() const {
  if (!style_.json || failed_requests_.empty()) return;
  fmt::print(stderr, "tp-infer: {} of {} requests failed; see `error` in the output\n",
             failed_requests_.size(), requests_);
}

bool GenerateOutput::begins_or_ends(const std::vector<TokenEvent>& events) const {
  return std::any_of(events.begin(), events.end(), [&](const TokenEvent& event) {
    const Continuation& continuation = continuations_.at(places_.at({event.request, event.sample}));
    return event.finish_reason != FinishReason::none || continuation.token_ids.empty();
  });
}

void GenerateOutput::add(const TokenEvent& event) {
  Continuation& continuation = continuations_.at(places_.at({event.request, event.sample}));
  if (event.finish_reason != FinishReason::error) {
    if (continuation.token_ids.empty()) {
      continuation.first_token_seconds = now_;
      continuation.first_token_time = time_;
    }
    continuation.token_ids.push_back(event.token);
    generated_tokens_ += 1;
  }
  continuation.text += event.text;
  if (event.logprob) continuation.logprobs.push_back(logprob_entry(event));
  continuation.finish_reason = event.finish_reason;
  continuation.error = event.error;
  continuation.seconds = now_;
  continuation.time = time_;
  if (event.finish_reason == FinishReason::error) failed_requests_.insert(continuation.index);
  print_ready();
}

// Prints what can be printed without breaking the order.
void GenerateOutput::print_ready() {
  for (; next_ < continuations_.size(); ++next_) {
    Continuation& continuation = continuations_[next_];
    const bool finished = continuation.finish_reason != FinishReason::none;
    if (!style_.json) print_text(continuation);
    if (!finished) return;
    if (style_.json) print_json(continuation);
  }
}

void GenerateOutput::print_text(Continuation& continuation) {
  const bool finished = continuation.finish_reason != FinishReason::none;
  if (!continuation.error.empty()) {
    print_message(fmt::format("tp-infer: prompt {}: {}", continuation.index + 1, continuation.error));
  }
  std::string out;
  if (!continuation.begun) {
    // Nothing is printed before there is something to print: an error may come instead.
    if (continuation.token_ids.empty()) return;
    continuation.begun = true;
    if (continuations_.size() > 1) out += heading_of(continuation);
    if (style_.echo) out += *continuation.prompt;
  }
  if (style_.has_text) {
    out += continuation.text.substr(continuation.printed);
    continuation.printed = continuation.text.size();
  } else if (finished) {
    out += nlohmann::json(continuation.token_ids).dump();
  }
  if (finished) out += "\n";
  file_.write(out);
}

std::string GenerateOutput::heading_of(const Continuation& continuation) {
  const char* const space = headed_ ? "\n" : "";
  headed_ = true;
  if (continuation.alone) return fmt::format("{}--- prompt {} ---\n", space, continuation.index + 1);
  return fmt::format("{}--- prompt {}, sample {} ---\n", space, continuation.index + 1,
                     continuation.sample + 1);
}

void GenerateOutput::print_json(const Continuation& continuation) const {
  nlohmann::json line = {{"index", continuation.index}, {"sample", continuation.sample}};
  if (!continuation.id.is_null()) line["id"] = continuation.id;
  if (!continuation.error.empty()) {
    line["error"] = continuation.error;
    line["finish_reason"] = "error";
  } else {
    const std::size_t generated = continuation.token_ids.size();
    const double decode_seconds = continuation.seconds - continuation.first_token_seconds;
    line["text"] = style_.has_text ? nlohmann::json(continuation.text) : nlohmann::json(nullptr);
    line["token_ids"] = continuation.token_ids;
    line["finish_reason"] = name_of(continuation.finish_reason);
    line["sampling"] = *continuation.sampling;
    line["timings"] = {
        {"load_s", rounded(style_.load_seconds)},
        {"prompt_tokens", continuation.prompt_tokens},
        {"generated_tokens", generated},
        {"first_token_s", rounded(continuation.first_token_seconds)},
        {"decode_s", rounded(decode_seconds)},
        {"decode_tokens_per_s", generated > 1 && decode_seconds > 0
                                    ? rounded(static_cast<double>(generated - 1) / decode_seconds)
                                    : 0.0},
        {"first_token_ms", milliseconds({}, continuation.first_token_time, 1)},
        {"ms_per_token", milliseconds(continuation.first_token_time, continuation.time, generated - 1)}};
    if (!continuation.logprobs.is_null()) line["logprobs"] = continuation.logprobs;
  }
  file_.write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace tp
