// The engine opens a model on the ranks of a communicator and continues prompts.
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
//       tp::Engine engine(comm, {.model = argv[1]});  // every rank loads its share of the weights
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
// Ranks other than 0 may call only the constructor, info() and follow(). Only members marked "from any
// thread" are thread-safe. Each member's comment lists its exceptions. Members that run steps also throw
// LockstepError. After a LockstepError, the engine is unusable, and the program must end the job (MPI_Abort),
// because the other ranks are waiting inside a collective.
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
  // `model` is a config.json without weights. The engine generates weights of the right shapes, in any
  // WeightType.
  bool synthetic = false;
  std::optional<WeightType> weights{};  // type in memory; unset: as stored in the checkpoint
  std::optional<KvType> kv_type{};      // unset: f32 with f32 or f16 weights, else bf16
  // Makes results bitwise identical for any number of ranks and threads, regardless of other requests and of
  // how the work is divided into steps. If the ranks' processors differ, this process is permanently limited
  // to instructions that all these processors support, so it must not open a second engine.
  bool same_bits = false;
  // The type of the sums that hosts send to each other. Any type but f32 rounds each sum twice, regardless of
  // the number of hosts. Results then depend on which ranks share a host, so same_bits requires f32.
  WireType wire = WireType::f32;
  // Computes large steps as two half-batches: while hosts exchange the sums of one half-batch, ranks compute
  // the other half-batch. Each rank communicates on a second thread, which needs MPI_THREAD_SERIALIZED
  // (MPI_Init_thread). `on` is an error at lower thread levels, with a pipeline, and for models that compute
  // a whole input in one step (encoders, encoder-decoders and others).
  TwoBatchOverlap two_batch_overlap = TwoBatchOverlap::automatic;
  // Number of random features that approximate attention in layers without a window; 0: exact attention. The
  // cost of a token then doesn't grow with its position, but results are approximate.
  std::size_t favor_features = 0;
  // Default of Unmasking::cache, for diffusion language models with bidirectional attention. Any value but
  // `exact` makes results approximate, and each layer needs its own memory for keys and values. With `exact`,
  // all layers share the memory of one layer. Other models allow only `exact`.
  UnmaskCache unmask_cache = UnmaskCache::exact;
  // Folder where packed weights are saved; empty: not saved. Later engines with the same model, types and
  // ranks load the saved weights. Each rank has its own file, so hosts can use local disks.
  std::filesystem::path packed_cache{};
  // Maximum number of tokens per step. If necessary, the engine raises it to max_sequences, and to the length
  // of the longest input if the model computes a whole input in one step.
  std::size_t prefill_chunk = 512;
  std::size_t max_sequences = 16;  // maximum number of sequences that run at the same time
  // Maximum number of tokens per sequence; 0: max_position_embeddings, but at most 4096 for LLaDA and Dream.
  std::size_t max_length = 0;
  std::size_t block_size = 32;   // tokens per KV cache block
  std::size_t cache_tokens = 0;  // capacity of the KV cache, if memory allows; 0: enough for max_sequences
  std::size_t threads = 0;       // threads of this rank; 0: a fair share of the host's cores
  // Each rank's relative share of weights, heads and vocabulary, for hosts of unequal speed: one number > 0
  // per rank; empty: equal shares. With `measured_split`, shares are proportional to each host's memory
  // bandwidth per rank, measured at startup, or equal if hosts differ by less than a tenth.
  std::vector<double> split{};
  bool measured_split = false;
  // Number of pipeline stages. Each stage is a group of ranks, and all groups have the same size. A group
  // owns consecutive layers and divides each layer among its ranks. Stages compute at the same time, on
  // different sequences or different parts of a prompt.
  std::size_t pipeline = 1;
  SpeculationOptions speculation{};  // draft tokens; only for decoders that use the cache
  // Creates the draft source for DraftKind::custom. Called once, on rank 0; may be empty on other ranks.
  std::function<std::unique_ptr<DraftSource>()> draft_source{};
  // If set, called once, on rank 0, with the source that `speculation` describes. The engine uses the
  // returned source instead, which lets a wrapper translate between vocabularies. The draft model's
  // vocabulary may then differ from the model's.
  std::function<std::unique_ptr<DraftSource>(std::unique_ptr<DraftSource>)> wrap_draft_source{};
  // For measurements: each rank does as much work as if there were this many ranks, so results are
  // meaningless. 0: off.
  std::size_t pretend_ranks = 0;
  // Maximum time in milliseconds that prompts may add to a step while any sequence is generating tokens; 0:
  // no limit. This time is predicted from past steps. At least 16 prompt tokens are always allowed. With a
  // limit, chunk sizes depend on the machine's current speed, which may change the last bits of results.
  double step_ms = 0.0;
  // Maximum number of waiting requests, and of their prompt tokens; 0: no limit. Above these limits, submit()
  // throws OverloadedError. Requests that can start immediately, because fewer than max_sequences sequences
  // are running, don't count. A prompt longer than max_queue_tokens may wait if no other prompt is waiting.
  std::size_t max_queue = 0;
  std::size_t max_queue_tokens = 0;
};

// A draft model (SpeculationOptions::model) or multi-token prediction layer. Byte counts are for rank 0.
struct DraftInfo {
  ModelConfig config;
  std::size_t parameters = 0;
  std::size_t ranks = 1;  // number of ranks that run the draft model
  std::size_t weight_bytes = 0;
  std::size_t cache_bytes = 0;
  std::size_t workspace_bytes = 0;
  bool is_layer = false;  // whether the draft model is a layer of the model's own checkpoint (DraftKind::mtp)
  // Whether this layer shares the model's embedding and LM head to save memory.
  bool uses_embedding = false;
  bool uses_head = false;
};

// The loaded model, as seen by this rank.
struct EngineInfo {
  ModelConfig config;
  ModelKind kind = ModelKind::decoder;
  std::size_t state_size = 0;  // floats in a token's final hidden state
  // The pooling that Engine::sequence_head expects; unset if the model has no sequence head. Rank 0 only.
  std::optional<Pooling> head_pooling;
  std::size_t parameters = 0;            // parameters of the whole model
  WeightType weights = WeightType::f32;  // in-memory type of most weights
  std::string rounded;  // stored types that lose precision in memory, such as "Q4_K as bf16"; usually empty
  // Checkpoint tensors that the model does not use, such as a vision tower. An unused tensor inside a layer
  // is an error instead. Rank 0 only, usually empty.
  std::vector<std::string> unused_tensors;
  // Harmless oddities in the model's files, and unsupported fields of generation_config.json. Rank 0 only,
  // usually empty.
  std::vector<std::string> file_notices;
  std::string generation_notice;
  // Why the model's tokenizer cannot be used; requests must then consist of token ids. Rank 0 only, usually
  // empty.
  std::string tokenizer_notice;
  // Special tokens that the model's files name but its vocabulary lacks, such as "eos_token_id 261". The
  // engine ignores these tokens. Rank 0 only, usually empty.
  std::vector<std::string> unknown_token_ids;
  KvType kv_type = KvType::f32;
  bool same_bits = false;  // this field and the next three: as in EngineOptions
  std::size_t favor_features = 0;
  UnmaskCache unmask_cache = UnmaskCache::exact;
  std::size_t threads = 1;
  std::size_t weight_bytes = 0;  // on this rank
  std::size_t stored_bytes = 0;  // bytes of all tensors in the checkpoint's files
  std::size_t bytes_used = 0;    // part of stored_bytes that this rank used
  // Bytes that this rank read from storage while loading; see RankReport.
  std::optional<std::uint64_t> bytes_from_storage;
  bool from_packed_cache = false;  // whether weights were loaded from EngineOptions::packed_cache
  // Why the packed cache could not be used or written. Usually empty.
  std::string packed_cache_notice;
  std::size_t cache_tokens = 0;
  // Why the cache is smaller than requested, or too small for a sequence of maximum length. Rank 0 only,
  // usually empty.
  std::string cache_notice;
  std::size_t cache_bytes = 0;      // bytes of this rank's cache when it is full
  std::size_t states = 0;           // number of recurrent states that fit in memory, including snapshots
  std::size_t state_bytes = 0;      // part of cache_bytes that holds states
  std::size_t workspace_bytes = 0;  // on this rank
  std::size_t max_length = 0;       // maximum tokens per sequence
  double load_seconds = 0.0;
  std::vector<TokenId> eos_token_ids;
  SamplingParams default_sampling;  // from generation_config.json
  GenerationDefaults generation;    // rank 0 only
  std::size_t pretend_ranks = 0;    // as in EngineOptions
  std::optional<DraftInfo> draft;   // rank 0 only
};

// Two texts encoded as one input, such as a question and a document.
struct EncodedPair {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> token_types;  // [ids]
};

class Engine {
 public:
  // Called with the fraction of this rank's weights loaded so far, in [0, 1].
  using Progress = std::function<void(double fraction)>;

  // Collective. Rank 0's options apply to all ranks, except `threads`, `packed_cache` and `model`. Each rank
  // may read its own copy of the model, but all copies must be identical. Throws AgreedError, with the same
  // text and ErrorKind on every rank, or CommError.
  Engine(Communicator& comm, const EngineOptions& options, const Progress& progress = {});
  // On rank 0: makes follow() return on the other ranks, with status 0, or 1 if an exception is unwinding the
  // stack.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineInfo& info() const;

  // On ranks > 0: takes part in rank 0's steps until rank 0 destroys its engine. Returns rank 0's exit
  // status. Throws CommError.
  int follow();

  // From any thread of rank 0: converts text to token ids and back with the model's tokenizer. With
  // `add_special`, encode() adds the tokenizer's special tokens, such as BOS, around the text. Special tokens
  // that the text spells out are recognized; in a MarkedText, such as a rendered chat template, only outside
  // of user input. Throws CheckpointError if the model has no tokenizer; decode() throws RequestError for an
  // id outside the vocabulary.
  bool has_tokenizer() const;
  std::vector<TokenId> encode(std::string_view text, bool add_special = true) const;
  std::vector<TokenId> encode(const MarkedText& text, bool add_special = false) const;
  std::string decode(std::span<const TokenId> ids) const;
  // Splits decode(ids) by token, [ids]. A character belongs to the token that completes it. Throws like
  // decode().
  std::vector<std::string> decode_parts(std::span<const TokenId> ids) const;
  // The bytes that a token adds to a text, possibly only part of a character. Empty for an id outside the
  // vocabulary. Throws CheckpointError if the model has no tokenizer.
  std::string bytes_of(TokenId id) const;
  // Encodes two texts with the tokenizer's template for pairs. Throws CheckpointError if the tokenizer has no
  // such template.
  EncodedPair encode_pair(std::string_view first, std::string_view second) const;
  // The id of the token that the vocabulary spells like this, for example "[MASK]"; unset if there is none.
  std::optional<TokenId> find_token(std::string_view token) const;
  // Whether the id is a control token, such as BOS. decode() omits control tokens.
  bool is_special(TokenId id) const;

  // From any thread of rank 0: compiles the request's constraint, if any. The engine keeps recent results, so
  // a later submit() of the request is fast. Throws RequestError if no text satisfies the constraint, or if
  // the constraint is too large.
  void compile_constraint(const Request& request) const;

  // From any thread: queues a request and returns its number. The request's events go to `sink`. Throws
  // RequestError if the request can never be served, TooLongError if it is too long, and OverloadedError if
  // there is currently not enough memory for the request or no room in the queue.
  RequestId submit(Request request, EventSink sink);
  // Submits a request without a sink: step() returns its tokens.
  RequestId submit(Request request);
  // From any thread: ends the request's continuations in the next step(), without further tokens.
  void cancel(RequestId request);
  // From any thread: the engine's load after the last step, including requests submitted since then.
  LeaderStatus status() const;

  // Whether any request is unfinished, or step() still has tokens to return.
  bool has_work() const;
  // Waits until there is work, wake() is called, or the timeout expires. Returns has_work(). If no thread is
  // waiting when wake() is called, the next wait returns at once.
  bool wait_for_work(std::chrono::nanoseconds timeout);
  // Ends wait_for_work(). Call it from any thread, but not from a signal handler.
  void wake();
  // Runs one step, a forward pass over the most urgent work. Returns the new tokens of requests without a
  // sink, if any. Throws LockstepError.
  std::vector<TokenEvent> step();

  // Rank 0's time so far, without asking the other ranks. Unlike in reports(), `collectives` includes waiting
  // time, and `waiting` is 0.
  TimeParts own_time() const;

  // One report per rank, in rank order.
  std::vector<RankReport> reports();
  // Resets the counters that reports() returns.
  void reset_statistics();

  // Measures the machine's current peak rates, for comparisons on machines whose speed varies. Returns
  // nothing if the model leaves too little memory. Resets the peak memory that reports() returns.
  std::optional<PeakRates> peak_rates();

  // Starts recording a trace on every rank. Each rank stops when its buffer is full.
  void start_trace();
  // The recorded traces, in rank order.
  std::vector<RankTrace> traces();

  // Calls on_row(position, [vocab_size]) with the logits at each position of a sequence. Submits a request
  // with max_tokens 0 and prompt_logits, and runs steps until the request has finished. Throws RequestError.
  void logits(std::span<const TokenId> tokens,
              const std::function<void(std::size_t position, std::span<const float> logits)>& on_row,
              AttentionMask attention = AttentionMask::causal);

  // Submits a request, passes its events to `on_event`, and runs steps until the request has finished. Throws
  // RequestError, and rethrows exceptions from `on_event`.
  void run(Request request, const EventSink& on_event);

  // From any thread of rank 0: applies the model's head to a pooled hidden state. Returns a classifier's
  // scores, one per label, or an encoder's pooled state, [hidden_size]. Throws ConfigError if the model has
  // no such head.
  std::vector<float> sequence_head(std::vector<float> pooled) const;

  // The natural log-probability of each token from index `first` (>= 1) onwards, given all tokens before it,
  // [tokens.size() - first]. Submits a request with max_tokens 0 and score_from, and runs steps until the
  // request has finished. Throws RequestError.
  std::vector<double> logprobs(std::span<const TokenId> tokens, std::size_t first = 1);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  bool is_root_;
};

}  // namespace tp
