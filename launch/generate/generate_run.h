#pragma once

#include "launch/common/progress.h"
#include "launch/generate/earlier_results.h"
#include "launch/generate/generate_output.h"
#include "launch/generate/request_source.h"
#include "launch/options/prompts.h"
#include "parallel/machine/stopwatch.h"
#include "runtime/chat/chat_prompts.h"
#include "tp/engine.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct GenerateSettings {
  Request defaults{};                       // for fields that a request leaves out
  std::vector<BatchText> prompts{};         // to continue, and ...
  std::string batch_file{};                 // ... a file of requests; may be empty
  bool echoes = false;                      // texts begin with their prompts
  std::filesystem::path model{};            // whose chat template conversations need ...
  std::string template_file{};              // ... unless there is a file of it
  const EarlierResults* earlier = nullptr;  // results of an earlier run; null: none
  std::size_t most_at_once = 1;             // largest number of requests in the engine
  bool reports_times = false;               // the output reports where the time went
  bool shows_progress = false;              // at a terminal, on stderr
  std::size_t requests = 0;                 // number of requests; 0: unknown
};

// Rank 0's part of `tp-infer generate`: takes requests as they arrive, while the engine works on earlier
// ones, and passes the results to the output.
class GenerateRun {
 public:
  // `engine`, `output` and `settings.earlier` must outlive this object.
  GenerateRun(Engine& engine, GenerateOutput& output, GenerateSettings settings);

  // Returns when all requests are answered and no more can come.
  void run();

  // Since run() began.
  double seconds() const { return watch_.seconds(); }

 private:
  void take_requests();
  bool take_prompt();
  bool take_line();
  Completion begin(const BatchText& prompt) const;
  Completion begin(const ApiRequest& asked);
  void submit(const AnswerFacts& facts, const std::function<Completion()>& make);
  void add(const std::vector<Event>& events);
  GenerateOutput::Written written_before(const Completion& completion) const;
  const ChatPrompts& chat();
  // `has_parts`: also the parts of the time.
  void note_time(bool has_parts);
  void show_progress();

  Engine& engine_;
  GenerateOutput& output_;
  GenerateSettings settings_;
  std::size_t taken_prompts_ = 0;
  std::optional<RequestSource> lines_;
  DistinctIds ids_;
  bool has_noted_time_ = false;  // since take_requests() began
  std::vector<Event> events_;    // since the last step
  std::optional<ChatPrompts> chat_;
  std::string chat_error_;
  Stopwatch watch_;
  std::optional<ProgressBar> bar_;
};

}  // namespace tp
