// The engine's inside: see tp/engine.h for what it promises.
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "parallel/stopwatch.h"
#include "runtime/engine_setup.h"
#include "runtime/sampler.h"
#include "runtime/scheduler.h"
#include "runtime/step_executor.h"

#include <memory>
#include <optional>

namespace tp {

class Engine::Impl {
 public:
  Impl(Communicator& comm, const EngineOptions& options, const Progress& progress);

  const EngineInfo& info() const { return info_; }
  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }

  int follow();
  void stop_followers(int exit_status) noexcept;

  std::uint64_t submit(Request request);
  void cancel(std::uint64_t request);
  bool has_work() const { return scheduler_->has_work(); }
  std::vector<TokenEvent> step();
  std::vector<RankReport> reports();
  void reset_statistics();
  void start_trace();
  std::vector<RankTrace> traces();
  void logits(std::span<const TokenId> tokens,
              const std::function<void(std::size_t, std::span<const float>)>& on_row);
  std::vector<double> logprobs(std::span<const TokenId> tokens, std::size_t first);

 private:
  void load(std::size_t cache_tokens, const Progress& progress);
  void fit_into_memory(const DecoderSpec& spec, const WeightSource& source, std::size_t cache_tokens);
  void fill_info(const DecoderSpec& spec, const WeightSource& source);
  void set_up_root();
  std::uint64_t enqueue(Request request);
  void check_request(const Request& request) const;
  void check_token_ids(std::span<const TokenId> ids) const;
  std::vector<BlockId> reserve_alone(std::span<const TokenId> tokens);
  void run_alone(std::span<const TokenId> tokens, std::size_t first_output,
                 const std::function<OutputRow(std::size_t)>& output_after, const OutputSink& sink);
  void lead(Step& step, const OutputSink& sink);
  void lead(Step::Kind kind);
  void run(const Step& step, const OutputSink& sink);
  void run_forward(const Step& step, const OutputSink& sink);
  void report();
  void reset_counts();
  TokenEvent advance(Sequence& sequence, const Candidates& candidates);
  TokenEvent choose_token(Sequence& sequence, const Candidates& candidates);
  FinishReason finish_reason_of(const Sequence& sequence, TokenId token) const;
  static void add_text(TokenEvent& event, Sequence& sequence);

  Communicator& comm_;
  EnginePlan plan_;
  EngineInfo info_;
  std::optional<Decoder> decoder_;
  std::optional<KvCache> cache_;
  std::optional<Workspace> workspace_;
  std::optional<StepExecutor> executor_;
  // Since the engine was opened or the statistics were reset.
  std::uint64_t steps_ = 0;
  double step_seconds_ = 0.0;
  double between_steps_seconds_ = 0.0;
  double gather_seconds_ = 0.0;    // within steps
  double sampling_seconds_ = 0.0;  // rank 0 only
  Stopwatch watch_;                // since the last step began or ended
  bool broken_ = false;            // a step failed on this rank: the others cannot be told

  // Rank 0 only.
  std::optional<Tokenizer> tokenizer_;
  std::optional<BlockManager> blocks_;
  std::optional<Scheduler> scheduler_;
  Sampler sampler_;
  std::vector<RankReport> reports_;
  std::vector<RankTrace> traces_;
  std::uint64_t next_id_ = 1;
};

}  // namespace tp
