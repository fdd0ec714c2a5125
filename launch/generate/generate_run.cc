#include "launch/generate/generate_run.h"

#include "launch/options/chat_templates.h"
#include "runtime/api/begin_completion.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace tp {

GenerateRun::GenerateRun(Engine& engine, GenerateOutput& output, GenerateSettings settings)
    : engine_(engine), output_(output), settings_(std::move(settings)) {
  if (!settings_.batch_file.empty()) lines_.emplace(settings_.batch_file);
}

void GenerateRun::run() {
  engine_.reset_statistics();
  watch_.restart();
  if (settings_.shows_progress) bar_.emplace("generating");
  while (true) {
    take_requests();
    if (!engine_.has_work()) return bar_.reset();
    show_progress();
    engine_.step();
    add(std::exchange(events_, {}));
  }
}

void GenerateRun::add(const std::vector<Event>& events) {
  note_time(settings_.reports_times && output_.begins_or_ends(events));
  for (const Event& event : events) {
    if (const auto* token = std::get_if<TokenEvent>(&event)) output_.add(*token);
    if (const auto* logprobs = std::get_if<PromptLogprobs>(&event)) output_.add(*logprobs);
    if (const auto* finished = std::get_if<RequestFinished>(&event)) output_.add(*finished);
    if (const auto* unmasked = std::get_if<TokensUnmasked>(&event)) output_.add(*unmasked);
  }
}

// Takes available requests. An engine without work waits for a request that it can serve, or for the end.
void GenerateRun::take_requests() {
  has_noted_time_ = false;
  while (output_.unfinished_requests() < settings_.max_at_once && (take_prompt() || take_line())) {
  }
}

bool GenerateRun::take_prompt() {
  if (taken_prompts_ == settings_.prompts.size()) return false;
  submit({}, [&] { return begin(settings_.prompts[taken_prompts_++]); });
  return true;
}

bool GenerateRun::take_line() {
  const std::optional<ApiRequest> asked = lines_ ? lines_->next(!engine_.has_work()) : std::nullopt;
  if (asked) submit(asked->facts, [&] { return begin(*asked); });
  return asked.has_value();
}

Completion GenerateRun::begin(const BatchText& prompt) const {
  Completion completion{.facts = {.echo = settings_.echoes ? prompt.text.value_or("") : ""},
                        .request = settings_.defaults};
  Request& request = completion.request;
  request.prompt = prompt.text ? encode_prompt(*prompt.text, engine_) : prompt.tokens.prompt;
  if (!prompt.tokens.decoder_prompt.empty()) request.decoder_prompt = prompt.tokens.decoder_prompt;
  complete_request(completion, engine_);
  return completion;
}

Completion GenerateRun::begin(const ApiRequest& asked) {
  if (settings_.earlier != nullptr && asked.error.empty()) ids_.add(asked.facts.id);
  Completion completion =
      begin_completion(asked, settings_.defaults, engine_, asked.conversation ? &chat() : nullptr);
  if (!asked.settings.contains("adapter")) choose_model(asked.facts.model, engine_, completion.request);
  return completion;
}

void GenerateRun::note_time(bool has_parts) {
  output_.set_now(watch_.seconds());
  if (has_parts) output_.set_time(mean_time(engine_.reports()));
}

void GenerateRun::show_progress() {
  if (!bar_) return;
  const std::size_t done = output_.finished_requests();
  const std::size_t all = settings_.requests;
  const double speed = static_cast<double>(output_.generated_tokens()) / watch_.seconds();
  if (all == 0) return bar_->update(std::nullopt, fmt::format(", {} requests, {:.0f} tokens/s", done, speed));
  bar_->update(static_cast<double>(done) / static_cast<double>(all),
               fmt::format(", {}/{} requests, {:.0f} tokens/s", done, all, speed));
}

// An error in a request ends only this request.
void GenerateRun::submit(const AnswerFacts& facts, const std::function<Completion()>& make) {
  if (!std::exchange(has_noted_time_, true)) note_time(settings_.reports_times);
  try {
    Completion completion = make();
    completion.request.validate();  // from here on, n is a valid size
    GenerateOutput::Written written = written_before(completion);
    if (std::find(written.begin(), written.end(), false) == written.end()) return output_.skip();
    const RequestId id = engine_.submit(completion.request,
                                        [&events = events_](const Event& event) { events.push_back(event); });
    output_.expect(id, std::move(completion), std::move(written));
  } catch (const Error& error) {
    output_.fail(facts, error.what());
  } catch (const std::bad_alloc&) {
    output_.fail(facts, "out of memory for the prompt's tokens; shorten it");
  }
}

GenerateOutput::Written GenerateRun::written_before(const Completion& completion) const {
  const int samples = completion.request.n;
  GenerateOutput::Written written(static_cast<std::size_t>(samples), false);
  for (int sample = 0; settings_.earlier != nullptr && sample < samples; ++sample)
    written[static_cast<std::size_t>(sample)] = settings_.earlier->has(completion.facts.id, sample);
  return written;
}

// The chat template is read for the first conversation, because most batches have none.
const ChatPrompts& GenerateRun::chat() {
  require<RequestError>(chat_error_.empty(), "{}", chat_error_);
  if (chat_) return *chat_;
  try {
    return chat_.emplace(engine_, open_chat_template(settings_.template_file, settings_.model));
  } catch (const Error& error) {
    chat_error_ = error.what();
    throw;
  }
}

}  // namespace tp
