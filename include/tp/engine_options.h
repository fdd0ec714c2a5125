// How an engine runs a model.
#pragma once

#include "tp/draft_source.h"
#include "tp/memory_types.h"
#include "tp/speculation.h"
#include "tp/two_batch_overlap.h"
#include "tp/unmasking.h"
#include "tp/wire_type.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// A low-rank adapter (LoRA) that requests can choose by its name.
struct AdapterOptions {
  std::string name;
  std::filesystem::path path;  // a folder in PEFT's layout, or a GGUF file
  double scale = 1.0;          // factor of what the adapter adds to the model's weights

  bool operator==(const AdapterOptions&) const = default;

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& name& path& scale;
  }
};

// Rank 0's options apply to all ranks, except `packed_cache`, `threads`, and the paths of the model, the
// draft model and the store. If a rank leaves one of these paths empty, it uses rank 0's. EngineInfo::options
// has the options in use.
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
  // If true, the ranks of a host that read the same KV head keep one copy of its cache, provided that they
  // can share memory. If false, each rank keeps its own copy. Results don't depend on this option, except in
  // the last bits with portable kernels on x86 if same_bits is false.
  bool kv_slices = true;
  // Number of random features that approximate attention in layers without a window; 0: exact attention. The
  // cost of a token then doesn't grow with its position, but results are approximate.
  std::size_t favor_features = 0;
  // Default for Unmasking::cache in diffusion language models with bidirectional attention. Any value but
  // `exact` makes results approximate, and each layer needs its own memory for keys and values. With `exact`,
  // all layers share the memory of one layer. Other models allow only `exact`.
  UnmaskCache unmask_cache = UnmaskCache::exact;
  // Folder where packed weights are saved; empty: not saved. Later engines with the same model, types and
  // ranks load the saved weights. Each rank has its own file, so hosts can use local disks.
  std::filesystem::path packed_cache{};
  // Folder where the keys, values and states of long prompts are stored, so that later engines read them
  // instead of computing them; empty: not stored. Engines on any number of ranks may share the folder, and
  // each host may have its own. With same_bits, results equal the results of computed prompts. Not for
  // encoders, encoder-decoders, models that compute whole inputs, or pipelines.
  std::filesystem::path kv_store{};
  std::uint64_t kv_store_size = 0;  // bytes that the folder may have; 0: 20 GB or a tenth of the disk
  std::size_t kv_store_min = 1024;  // shorter prompts, in tokens, are not stored
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
  // The task of a model that has several: "rank" uses a decoder's answers yes and no as scores of documents;
  // other names select an adapter that is stored with the weights ("retrieval.query"). Empty: the model's
  // own.
  std::string task{};
  // Adapters beside the model, for Request::adapter. Names must differ.
  std::vector<AdapterOptions> adapters{};
  // The adapter of requests that leave Request::adapter unset; empty: the model alone; unset: with
  // `adapters`, requests must choose.
  std::optional<std::string> default_adapter{};
  // For measurements: each rank does as much work as if there were this many ranks, so results are
  // meaningless. 0: off.
  std::size_t pretend_ranks = 0;
  // Maximum time that prompts may add to a step while any sequence is generating tokens; 0: no limit. This
  // time is predicted from past steps. At least 16 prompt tokens are always allowed. With a limit, chunk
  // sizes depend on the machine's current speed, which may change the last bits of results.
  std::chrono::duration<double, std::milli> step_time{0.0};
  // Maximum number of waiting requests, and of their prompt tokens; 0: no limit. Above these limits, submit()
  // throws OverloadedError. Requests that can start immediately, because fewer than max_sequences sequences
  // are running, don't count. A prompt longer than max_queue_tokens may wait if no other prompt is waiting.
  std::size_t max_queue = 0;
  std::size_t max_queue_tokens = 0;

  bool operator==(const EngineOptions&) const = default;

  // The options that rank 0 sends to the other ranks.
  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& model& synthetic& weights& kv_type& same_bits& wire& two_batch_overlap& kv_slices&
        favor_features& unmask_cache& prefill_chunk& max_sequences& max_length& block_size& cache_tokens&
            split& measured_split& pipeline& speculation& pretend_ranks& step_time& max_queue&
                max_queue_tokens& kv_store& kv_store_size& kv_store_min& task& adapters& default_adapter;
  }
};

struct InternalHooks;

// Functions that an engine calls. Each rank has its own.
struct EngineHooks {
  // Called with the fraction of this rank's weights loaded so far, in [0, 1].
  std::function<void(double fraction)> progress{};
  // Called on rank 0 between steps with a note for the user, for example that a disk is full.
  std::function<void(const std::string& text)> note{};
  // Creates the draft source for DraftKind::custom. Called once, on rank 0; may be empty on other ranks.
  std::function<std::unique_ptr<DraftSource>()> draft_source{};
  std::shared_ptr<const InternalHooks> internal{};  // for this project's own benchmarks
};

}  // namespace tp
