// The engine opens a model on the ranks of a communicator and continues prompts.
//
//   #include "tp/run.h"
//
//   #include <iostream>
//
//   int main(int argc, char** argv) {  // mpirun -np 2 ./story /models/llama
//     return tp::run({.model = argc > 1 ? argv[1] : ""}, [](tp::Engine& engine) {  // on rank 0
//       engine.submit({.prompt = engine.encode("Once upon a time"), .max_tokens = 40});
//       while (engine.has_work())
//         for (const tp::TokenEvent& event : engine.step()) std::cout << event.text << std::flush;
//       return 0;
//     });
//   }
//
// Ranks other than 0 may call only the constructor, info() and follow(). Only members marked "from any
// thread" are thread-safe. Each member's comment lists its exceptions. Members that run steps also throw
// LockstepError. After a LockstepError, the engine is unusable, and the program must end the job (MPI_Abort),
// because the other ranks are waiting inside a collective.
#pragma once

#include "tp/communicator.h"
#include "tp/engine_info.h"
#include "tp/engine_options.h"
#include "tp/event.h"
#include "tp/leader_status.h"
#include "tp/marked_text.h"
#include "tp/peak_rates.h"
#include "tp/rank_report.h"
#include "tp/request.h"
#include "tp/trace.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Two texts encoded as one input, such as a question and a document.
struct EncodedPair {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> token_types;  // [ids]
};

class Engine {
 public:
  // Collective. Each rank may read its own copy of the model, but all copies must be identical. Throws
  // AgreedError, with the same text and ErrorKind on every rank, or CommError.
  Engine(Communicator& comm, const EngineOptions& options, const EngineHooks& hooks = {});
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
  // spelled out in the text are recognized, except in those parts of a MarkedText that are user input. Throws
  // CheckpointError if the model has no tokenizer; decode() throws RequestError for an id outside the
  // vocabulary.
  bool has_tokenizer() const;
  std::vector<TokenId> encode(std::string_view text, bool add_special = true) const;
  std::vector<TokenId> encode(const MarkedText& text, bool add_special = false) const;
  std::string decode(std::span<const TokenId> ids) const;
  // As decode(), with the spellings of control tokens.
  std::string decode_with_special(std::span<const TokenId> ids) const;
  // Decodes like decode(), but returns one string per token, [ids]. A character belongs to the token that
  // completes it. Throws like decode().
  std::vector<std::string> decode_parts(std::span<const TokenId> ids) const;
  // The bytes that a token adds to a text, possibly only part of a character. Empty for an id outside the
  // vocabulary. Throws CheckpointError if the model has no tokenizer.
  std::string bytes_of(TokenId id) const;
  // Encodes two texts with the tokenizer's template for pairs. Throws CheckpointError if the tokenizer has no
  // such template.
  EncodedPair encode_pair(std::string_view first, std::string_view second) const;
  // The id of the token with this spelling in the vocabulary, for example "[MASK]"; unset if there is none.
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
  // From any thread of rank 0: removes the prompts that are stored for this model and these options
  // (EngineOptions::kv_store), soon. Prompts in memory stay, and are stored again if they are continued.
  // Returns false if there is no store.
  bool clear_store();
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
              bool bidirectional = false);

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
