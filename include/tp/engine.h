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
//         status = engine.follow();  // until rank 0's engine is gone
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
// Everything but the constructor, info() and follow() is rank 0's alone, and for one thread unless it says
// otherwise. A member may throw what its comment says; LockstepError besides, where it runs steps: the engine
// cannot go on then, and the job has to end (MPI_Abort), as the other ranks wait inside a collective.
#pragma once

#include "tp/communicator.h"
#include "tp/event.h"
#include "tp/leader_status.h"
#include "tp/memory_types.h"
#include "tp/model_config.h"
#include "tp/rank_report.h"
#include "tp/request.h"
#include "tp/trace.h"

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
  std::filesystem::path model;          // a folder with config.json and *.safetensors, or a GGUF file
  bool synthetic = false;               // `model` is a config.json, and weights of its shapes are generated
  std::optional<WeightType> weights{};  // none: as stored
  std::optional<KvType> kv_type{};      // none: f32 with f32 and f16 weights, else bf16
  std::size_t prefill_chunk = 512;      // tokens of a step at most
  std::size_t max_sequences = 16;       // worked on at once
  std::size_t max_length = 0;           // tokens of a sequence at most; 0: max_position_embeddings
  std::size_t block_size = 32;          // tokens of a cache block
  std::size_t cache_tokens = 0;  // that the KV cache holds, if memory allows; 0: what max_sequences need
  std::size_t threads = 0;  // of this rank; 0: the processors it may use, divided fairly among a host's ranks
};

// What an engine is made of, as seen by this rank.
struct EngineInfo {
  ModelConfig config;
  std::size_t parameters = 0;            // of the whole model
  WeightType weights = WeightType::f32;  // the type of most of them in memory
  std::string rounded;  // stored types that `auto` rounds: "Q4_K as bf16, Q6_K as bf16"; usually empty
  // Of the checkpoint, outside of the model's blocks, and unknown; known to rank 0, usually empty.
  std::vector<std::string> unused_tensors;
  KvType kv_type = KvType::f32;
  std::size_t threads = 1;
  std::size_t weight_bytes = 0;  // this rank holds
  std::size_t stored_bytes = 0;  // of all tensors in the checkpoint's files
  std::size_t bytes_read = 0;    // of them, by this rank
  std::size_t cache_tokens = 0;
  // That memory allows a smaller cache than was asked for, or than a sequence may need; known to rank 0,
  // usually empty.
  std::string cache_notice;
  std::size_t cache_bytes = 0;      // when the cache is full, on this rank
  std::size_t workspace_bytes = 0;  // on this rank
  std::size_t max_length = 0;       // tokens of a sequence
  double load_seconds = 0.0;
  std::vector<TokenId> eos_token_ids;
  SamplingParams default_sampling;  // from generation_config.json
};

class Engine {
 public:
  // Called with the fraction of this rank's weights that has been loaded, in [0, 1].
  using Progress = std::function<void(double fraction)>;

  // Collective. Rank 0's options hold for all ranks, except `threads` and `model`: a rank that is given a
  // path reads the model there, whose content must be that of the others. Throws AgreedError, the same on
  // every rank and of the kind of what went wrong (ErrorKind), or CommError.
  Engine(Communicator& comm, EngineOptions options, const Progress& progress = {});
  // On rank 0 it lets the other ranks return from follow(): with 0, or with 1 during stack
  // unwinding.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineInfo& info() const;

  // Ranks > 0: serves rank 0's steps. Returns the exit status that rank 0 ends with. Throws CommError.
  int follow();

  // Text to ids and back, with the model's tokenizer. encode adds the special tokens with which its prompts
  // begin, unless `add_special` is false: a chat template has written them out. Throws CheckpointError if the
  // model has none; decode throws RequestError for an id that is not in the vocabulary.
  bool has_tokenizer() const;
  std::vector<TokenId> encode(std::string_view text, bool add_special = true) const;
  std::string decode(std::span<const TokenId> ids) const;
  // Whether an id is that of a control token, such as BOS, which decode leaves out.
  bool is_special(TokenId id) const;

  // From any thread: queues a request; returns its number. What becomes of it goes to the sink. Throws
  // RequestError for one that cannot be served, TooLongError if it is too long, OverloadedError if memory is
  // short.
  RequestId submit(Request request, EventSink sink);
  // The same for programs that only want tokens: step() returns them.
  RequestId submit(Request request);
  // From any thread: the request's continuations end without further tokens.
  void cancel(RequestId request);
  // From any thread: how busy the engine is, as of the last step.
  LeaderStatus status() const;

  // Whether there are requests that have not ended, or tokens that step() has not returned.
  bool has_work() const;
  // Runs one step: a forward pass over what is most urgent. Returns the tokens that it gave to requests
  // without a sink, perhaps none. Throws LockstepError.
  std::vector<TokenEvent> step();

  // What every rank is and did, in rank order.
  std::vector<RankReport> reports();
  // Starts the counts of reports() afresh.
  void reset_statistics();

  // From here on every rank records what it does, as far as there is room.
  void start_trace();
  // What every rank recorded, in rank order.
  std::vector<RankTrace> traces();

  // The logits of every position of a sequence: on_row(position, [vocab_size]). A request like any other,
  // with max_tokens 0 and prompt_logits: runs steps until it has ended. Throws RequestError.
  void logits(std::span<const TokenId> tokens,
              const std::function<void(std::size_t position, std::span<const float> logits)>& on_row);

  // How well the model predicts a sequence: the natural logarithm of the probability of every token from
  // `first` (>= 1) on, given all tokens before it. [tokens.size() - first]. A request like any other, with
  // max_tokens 0 and score_from: runs steps until it has ended. Throws RequestError.
  std::vector<double> logprobs(std::span<const TokenId> tokens, std::size_t first = 1);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  bool is_root_;
};

}  // namespace tp
