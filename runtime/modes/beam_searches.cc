#include "runtime/modes/beam_searches.h"

#include "runtime/modes/beam_run.h"
#include "runtime/scheduling/request_check.h"
#include "runtime/scheduling/seq2seq_request.h"
#include "runtime/text/bad_words.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <utility>

namespace tp {
namespace {

// Throws RequestError if the steps of a search would need so many candidates that other requests would wait
// for it. BeamRun checks in every step how many candidates the bans of its texts add.
void require_few_candidates(const BeamRun::Setup& setup) {
  const auto beams = static_cast<std::size_t>(setup.request.beam_search->beams);
  const std::size_t of_beam =
      std::max<std::size_t>(2, 1 + setup.ends.size()) * beams + setup.ends.size() + setup.bans.words.size();
  require<RequestError>(std::min(of_beam, setup.vocab_size) * beams <= kMaxBeamCandidates,
                        "cannot search: {} beams with {} end tokens and {} bad words need too many "
                        "candidates in a step, expected at most {}; use fewer",
                        beams, setup.ends.size(), setup.bans.words.size(), kMaxBeamCandidates);
}

}  // namespace

BeamSearches::BeamSearches(Leader& leader, LeaderOptions options, const Tokenizer* tokenizer)
    : leader_(leader), options_(std::move(options)), tokenizer_(tokenizer) {}

BeamSearches::~BeamSearches() = default;

RequestId BeamSearches::submit(Request request, EventSink sink) {
  if (options_.kind == ModelKind::seq2seq) begin_decoder(options_.generation, options_.model(), request);
  check_request(request, options_, tokenizer_ != nullptr);
  const std::size_t begun =
      request.decoder_prompt.empty() ? request.prompt.size() : request.decoder_prompt.size();
  BeamRun::Setup setup{
      .request = std::move(request), .vocab_size = options_.vocab_size, .sink = std::move(sink)};
  Request& own = setup.request;
  setup.max_tokens =
      std::min<std::size_t>(static_cast<std::size_t>(own.max_tokens), options_.engine.max_length - begun);
  if (!own.ignore_eos) {
    setup.ends = options_.eos_token_ids;
    setup.ends.insert(setup.ends.end(), own.stop_token_ids.begin(), own.stop_token_ids.end());
    if (static_cast<std::size_t>(own.min_tokens) < setup.max_tokens)
      setup.forced_last = options_.generation.forced_last;
  }
  TokenBans& bans = setup.bans;
  if (!own.ignore_eos) bans.model_ends = options_.eos_token_ids;
  bans.ends = setup.ends;
  bans.min_tokens = static_cast<std::size_t>(own.min_tokens);
  bans.words = bad_words_of(own, tokenizer_);
  add_defaults(options_.generation, begun, setup.max_tokens, false, bans);
  std::ranges::sort(setup.ends);
  setup.ends.erase(std::unique(setup.ends.begin(), setup.ends.end()), setup.ends.end());
  require_few_candidates(setup);
  if (!own.forced_first && begun == 1) own.forced_first = options_.generation.forced_first;
  const RequestId id = setup.id = leader_.reserve_id();
  setup.on_end = [this, id](const AnswerCounts& counts) {
    const std::lock_guard lock(mutex_);
    counts.add_to(counts_);
    runs_.erase(id);
  };
  const auto run = std::make_shared<BeamRun>(leader_, tokenizer_, std::move(setup));
  {
    const std::lock_guard lock(mutex_);
    runs_[id] = run;
  }
  try {
    run->begin();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    runs_.erase(id);
    throw;
  }
  return id;
}

bool BeamSearches::cancel(RequestId id) {
  std::shared_ptr<BeamRun> run;
  {
    const std::lock_guard lock(mutex_);
    const auto found = runs_.find(id);
    if (found == runs_.end()) return false;
    run = found->second;
  }
  run->cancel();
  return true;
}

void BeamSearches::add_to(LeaderStatus& status) const {
  const std::lock_guard lock(mutex_);
  counts_.add_to(status);
}

}  // namespace tp
