// The engine: opens a model over the ranks of a communicator and continues prompts.
//
//   #include "tp/engine.h"
//   #include "tp/mpi.h"
//
//   #include <exception>
//   #include <iostream>
//
//   int main(int argc, char** argv) {  // mpirun -np 2 ./story /models/llama
//     MPI_Init(&argc, &argv);
//     int status = 0;
//     try {
//       tp::Communicator comm(MPI_COMM_WORLD);
//       tp::Engine engine(comm, {.model = argv[1]});  // every rank loads its slices
//       if (!comm.is_root()) {
//         status = engine.follow();  // until rank 0 destroys its engine
//       } else {
//         engine.submit({.prompt = engine.encode("Once upon a time"), .max_tokens = 40});
//         while (engine.has_work())
//           for (const tp::TokenEvent& event : engine.step()) std::cout << event.text << std::flush;
//       }
//     } catch (const std::exception& error) {
//       std::cerr << error.what() << std::endl;
//       MPI_Abort(MPI_COMM_WORLD, 1);
//     }
//     MPI_Finalize();
//     return status;
//   }
//
// Only the constructor, info() and follow() may be called on ranks other than 0, and only the members marked
// "from any thread" are thread-safe. Each member lists the exceptions it throws. Those that run steps also
// throw LockstepError: the engine is then unusable and the job has to be ended (MPI_Abort), because the other
// ranks are waiting inside a collective.
#pragma once

#include "tp/communicator.h"
#include "tp/draft_source.h"
#include "tp/event.h"
#include "tp/generation_defaults.h"
#include "tp/leader_status.h"
#include "tp/marked_text.h"
#include "tp/memory_types.h"
#include "tp/model_config.h"
#include "tp/model_kind.h"
#include "tp/peak_rates.h"
#include "tp/rank_report.h"
#include "tp/request.h"
#include "tp/speculation.h"
#include "tp/trace.h"
#include "tp/two_batch_overlap.h"
#include "tp/wire_type.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

struct EngineOptions {
  std::filesystem::path model;  // a folder with config.json and *.safetensors, or a GGUF file
  bool synthetic = false;       // `model` is a config.json; weights of its shapes are generated, in any type
  std::optional<WeightType> weights{};  // none: as stored in the checkpoint
  std::optional<KvType> kv_type{};      // none: f32 for f32 and f16 weights, else bf16
  // Whether results have the same bits on any number of ranks, whatever is computed beside them and however
  // it is divided into steps and threads. If the ranks' processors differ, the process uses from then on only
  // instructions that all of them have, so it must not have another engine.
  bool same_bits = false;
  // How sums over ranks are sent from host to host. With another type than f32 they are rounded to it, twice
  // however many hosts there are, and results depend on which ranks share a host: an error with same_bits.
  WireType wire = WireType::f32;
  // Whether large steps are computed as two half-batches in turns, so that sums are on their way from host to
  // host while a rank computes. Another thread of each rank then communicates: MPI must have been initialized
  // with MPI_THREAD_SERIALIZED (MPI_Init_thread), else it is an error with `on`, as it is for encoders,
  // encoder-decoders and other models that compute whole sequences, and with a pipeline.
  TwoBatchOverlap two_batch_overlap = TwoBatchOverlap::automatic;
  // Random features that approximate attention in the layers that see all tokens, which then cost the same
  // for every token, however many precede it; 0: attention is exact. Results are others than the model's.
  std::size_t favor_features = 0;
  // Default of Unmasking::cache, for diffusion language models whose tokens see later tokens. Unless it is
  // exact, results are approximate, and every layer has its own memory for keys and values instead of sharing
  // that of one layer. An error for other models.
  UnmaskCache unmask_cache = UnmaskCache::exact;
  // A folder for weights as they were packed, from which the next engine of the same model, types and ranks
  // loads them; none if empty. Each rank has a file of its own, so that hosts may use local disks.
  std::filesystem::path packed_cache{};
  std::size_t prefill_chunk = 512;  // maximum tokens per step; of an encoder at least max_length
  std::size_t max_sequences = 16;   // maximum running at the same time
  std::size_t max_length = 0;       // maximum tokens per sequence; 0: max_position_embeddings
  std::size_t block_size = 32;      // tokens per KV cache block
  std::size_t cache_tokens = 0;     // capacity of the KV cache, memory permitting; 0: what max_sequences need
  std::size_t threads = 0;          // threads of this rank; 0: its fair share of the host's cores
  // How much of the weights, heads and vocabulary each rank takes, relative to the others, for hosts of
  // unequal speed: one number > 0 per rank; empty: the same for all. Or, if `measured_split`, what each
  // rank's host can read from memory per rank, measured at the start; hosts that differ by less than a tenth
  // count as equal.
  std::vector<double> split{};
  bool measured_split = false;
  // In how many groups of equally many ranks the layers are divided, one after the other, each of which
  // divides its layers among its ranks. As many steps are computed at the same time, of different sequences
  // or parts of a prompt.
  std::size_t pipeline = 1;
  SpeculationOptions speculation{};  // draft tokens; not for encoders
  // With DraftKind::custom, called on rank 0 once; may be empty on the others.
  std::function<std::unique_ptr<DraftSource>()> draft_source{};
  // If set, called on rank 0 once: what it makes of the source that `speculation` describes is asked in its
  // place. It stands between two vocabularies then: those of draft models are not compared.
  std::function<std::unique_ptr<DraftSource>(std::unique_ptr<DraftSource>)> wrap_draft_source{};
  // To measure what ranks would have to do if they were the first of this many: results are meaningless. 0:
  // as many as there are.
  std::size_t pretend_ranks = 0;
  // While any sequence generates, the milliseconds that prompts may add to a step, as far as the speed of
  // past steps predicts; at least 16 tokens are computed. 0: no limit but prefill_chunk. Chunks then depend
  // on how fast the machine is at the moment, and with them the last bits of results where chunks matter at
  // all.
  double step_ms = 0.0;
  // How many requests, and tokens of their prompts, may wait; submit() refuses others. Requests that can
  // begin at once, because fewer than max_sequences run, do not count as waiting. 0: any number. A prompt
  // longer than max_queue_tokens may wait if no other prompt does.
  std::size_t max_queue = 0;
  std::size_t max_queue_tokens = 0;
};

// A draft model (SpeculationOptions::model), as seen by rank 0.
struct DraftInfo {
  ModelConfig config;
  std::size_t parameters = 0;
  std::size_t ranks = 1;  // ranks that run it
  std::size_t weight_bytes = 0;
  std::size_t cache_bytes = 0;
  std::size_t workspace_bytes = 0;
  bool is_layer = false;  // not another model, but a layer of the model's own checkpoint: DraftKind::mtp
  // Whether such a layer uses the model's embedding and LM head and so needs no memory for its own.
  bool uses_embedding = false;
  bool uses_head = false;
};

// The model that an engine loaded, as seen by this rank.
struct EngineInfo {
  ModelConfig config;
  ModelKind kind = ModelKind::decoder;
  std::size_t state_size = 0;  // floats of a token's last hidden state
  // How a sequence's hidden states are pooled for Engine::sequence_head; none if there is no head. Rank 0
  // only.
  std::optional<Pooling> head_pooling;
  std::size_t parameters = 0;            // parameters of the whole model
  WeightType weights = WeightType::f32;  // the in-memory type of most of them
  std::string rounded;  // stored types that lose precision in memory: "Q4_K as bf16"; usually empty
  // Tensors of the checkpoint outside the model's blocks that nothing uses. Rank 0 only, usually empty.
  std::vector<std::string> unused_tensors;
  // Oddities of the model's files that stop nothing, and fields of generation_config.json that are not
  // supported. Rank 0 only, usually empty.
  std::vector<std::string> file_notices;
  std::string generation_notice;
  // Why the tokenizer in the model's file cannot be used, so that only token ids work. Rank 0 only, usually
  // empty.
  std::string tokenizer_notice;
  // Special tokens of the model's files that are no tokens of its vocabulary and are ignored: "eos_token_id
  // 261". Rank 0 only, usually empty.
  std::vector<std::string> unknown_token_ids;
  KvType kv_type = KvType::f32;
  bool same_bits = false;  // as in EngineOptions, like the next
  std::size_t favor_features = 0;
  UnmaskCache unmask_cache = UnmaskCache::exact;
  std::size_t threads = 1;
  std::size_t weight_bytes = 0;  // on this rank
  std::size_t stored_bytes = 0;  // bytes of all tensors in the checkpoint's files
  std::size_t bytes_used = 0;    // part of stored_bytes that this rank used
  // Bytes that this rank read from storage while loading; see RankReport.
  std::optional<std::uint64_t> bytes_from_storage;
  bool from_packed_cache = false;  // whether weights come from EngineOptions::packed_cache
  // Says that a packed cache was found but could not be used, or could not be written. Usually empty.
  std::string packed_cache_notice;
  std::size_t cache_tokens = 0;
  // Says that memory allows only a smaller cache than requested, or than one sequence may need. Rank 0 only,
  // usually empty.
  std::string cache_notice;
  std::size_t cache_bytes = 0;      // bytes of a full cache on this rank
  std::size_t states = 0;           // states of recurrent layers that fit into the cache, including snapshots
  std::size_t state_bytes = 0;      // part of cache_bytes that states take
  std::size_t workspace_bytes = 0;  // on this rank
  std::size_t max_length = 0;       // maximum tokens per sequence
  double load_seconds = 0.0;
  std::vector<TokenId> eos_token_ids;
  SamplingParams default_sampling;  // from generation_config.json
  GenerationDefaults generation;    // rank 0 only
  std::size_t pretend_ranks = 0;    // as in EngineOptions
  std::optional<DraftInfo> draft;   // rank 0 only
};

// Two texts as one input, such as a question and a document.
struct EncodedPair {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> token_types;  // [ids]
};

class Engine {
 public:
  // Called with the fraction of this rank's weights loaded so far, in [0, 1].
  using Progress = std::function<void(double fraction)>;

  // Collective. Rank 0's options apply to all ranks, except `threads`, `packed_cache` and `model`: a rank may
  // read its own copy of the model, whose content must equal the others'. Throws AgreedError, with the same
  // text and ErrorKind on every rank, or CommError.
  Engine(Communicator& comm, const EngineOptions& options, const Progress& progress = {});
  // On rank 0: makes follow() return on the other ranks, with 0, or with 1 during stack unwinding.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineInfo& info() const;

  // On ranks > 0: takes part in rank 0's steps until its engine is destroyed. Returns rank 0's exit status.
  // Throws CommError.
  int follow();

  // From any thread of rank 0: text to ids and back, with the model's tokenizer. encode adds the special
  // tokens that prompts begin with, unless `add_special` is false. Those that are written out in the text are
  // recognized: of a MarkedText, such as a rendered chat template, which contains all that it needs, only
  // outside of input. Throws CheckpointError if the model has no tokenizer; decode throws RequestError for an
  // id outside the vocabulary.
  bool has_tokenizer() const;
  std::vector<TokenId> encode(std::string_view text, bool add_special = true) const;
  std::vector<TokenId> encode(const MarkedText& text, bool add_special = false) const;
  std::string decode(std::span<const TokenId> ids) const;
  // The parts of decode(ids) that each of the ids completes, [ids]. Throws as decode does.
  std::vector<std::string> decode_parts(std::span<const TokenId> ids) const;
  // The bytes that a token adds to a text, which may be part of a character; none for an id outside the
  // vocabulary. Throws CheckpointError if the model has no tokenizer.
  std::string bytes_of(TokenId id) const;
  // As the tokenizer's template for pairs says. Throws CheckpointError if it has none.
  EncodedPair encode_pair(std::string_view first, std::string_view second) const;
  // The id of a token as it is in the vocabulary, such as "[MASK]".
  std::optional<TokenId> find_token(std::string_view token) const;
  // Whether the id is a control token, such as BOS, which decode leaves out.
  bool is_special(TokenId id) const;

  // From any thread of rank 0: compiles the constraint of a request, if it has one. The engine keeps the
  // latest results, so that submit() of the request does not take long. Throws RequestError if no text
  // satisfies the constraint, or if it is too large.
  void compile_constraint(const Request& request) const;

  // From any thread: queues a request and returns its number. Its events go to `sink`. Throws RequestError if
  // it can never be served, TooLongError if it is too long, OverloadedError if there is no memory for it now,
  // or no room in the queue.
  RequestId submit(Request request, EventSink sink);
  // Submits a request without a sink: step() returns its tokens.
  RequestId submit(Request request);
  // From any thread: ends the request's continuations without further tokens, in the next step().
  void cancel(RequestId request);
  // From any thread: the engine's load, as of the last step, plus requests submitted since.
  LeaderStatus status() const;

  // Whether there are requests that have not ended, or tokens that step() has not returned.
  bool has_work() const;
  // Waits until there is work, wake() is called, or the time is over. Returns has_work(). A wake() that
  // nobody waited for ends the next wait at once.
  bool wait_for_work(std::chrono::nanoseconds timeout);
  // From any thread, but not from a signal handler: ends wait_for_work().
  void wake();
  // Runs one step, a forward pass over the most urgent work. Returns the new tokens of requests without a
  // sink, if any. Throws LockstepError.
  std::vector<TokenEvent> step();

  // Time that rank 0 spent so far, as in reports() but without asking the other ranks: `waiting` is 0 and
  // part of `collectives`.
  TimeParts own_time() const;

  // One report per rank, in rank order.
  std::vector<RankReport> reports();
  // Resets the counters that reports() shows.
  void reset_statistics();

  // Measures the machine's peak rates now (measure_peak_rates), for comparisons on a machine whose speed
  // changes. Returns nothing if there is too little memory beside the model. Resets the peak memory that
  // reports() shows.
  std::optional<PeakRates> peak_rates();

  // Starts recording a trace on every rank, until its buffer is full.
  void start_trace();
  // The recorded traces, in rank order.
  std::vector<RankTrace> traces();

  // The logits at every position of a sequence, as on_row(position, [vocab_size]). Submits a request with
  // max_tokens 0 and prompt_logits, and runs steps until it has finished. Throws RequestError.
  void logits(std::span<const TokenId> tokens,
              const std::function<void(std::size_t position, std::span<const float> logits)>& on_row,
              AttentionMask attention = AttentionMask::causal);

  // Submits a request and runs steps until it has finished, with its events as they come. Throws
  // RequestError, or what `on_event` throws.
  void run(Request request, const EventSink& on_event);

  // From any thread of rank 0: what the model's head makes of a pooled hidden state: a classifier's scores,
  // one for each label, or the result of an encoder's pooler, [hidden_size]. Throws ConfigError if it has
  // none.
  std::vector<float> sequence_head(std::vector<float> pooled) const;

  // How well the model predicts a sequence: the log-probability (natural) of every token from `first` (>= 1)
  // on, given all tokens before it, [tokens.size() - first]. Submits a request with max_tokens 0 and
  // score_from, and runs steps until it has finished. Throws RequestError.
  std::vector<double> logprobs(std::span<const TokenId> tokens, std::size_t first = 1);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  bool is_root_;
};

}  // namespace tp
