// Errors of opening a model or serving a request: all ranks report the same text, and no rank hangs.
#include "parallel/exchange/fail_together.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/engine/tiny_checkpoint.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::greedy_request;
using test::run_alone;
using test::run_engine;
using test::TemporaryDirectory;
using test::TinyCheckpoint;

// Every rank has its own working directory with the model in "model", like hosts with separate disks.
class OwnDirectory {
 public:
  OwnDirectory() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(directory_.path());
  }
  ~OwnDirectory() { std::filesystem::current_path(before_); }
  OwnDirectory(const OwnDirectory&) = delete;
  OwnDirectory& operator=(const OwnDirectory&) = delete;

 private:
  std::filesystem::path before_;
  TemporaryDirectory directory_;
};

// Returns the error when this rank opens "model".
std::string refusal(Communicator& comm, EngineOptions options = {}) {
  options.model = "model";
  return test::error_or_none<AgreedError>([&] { run_engine(comm, options, [](Engine&) {}); });
}

// Every rank creates the same checkpoint, which `damage` then changes.
std::string refusal_after(Communicator& comm, const std::function<void(TinyCheckpoint&)>& damage) {
  const OwnDirectory directory;
  TinyCheckpoint checkpoint;
  damage(checkpoint);
  checkpoint.write("model");
  return refusal(comm);
}

TEST(EngineErrors, AreAbsentForASoundCheckpoint) {
  Communicator& comm = test::world();
  EXPECT_EQ(refusal_after(comm, [](TinyCheckpoint&) {}), "no error");
}

// A server's engine also rejects such requests.
TEST(EngineErrors, SayWhyADecoderWithoutCausalAttentionGeneratesNoText) {
  const OwnDirectory directory;
  TinyCheckpoint checkpoint;
  checkpoint.config["is_causal"] = false;
  checkpoint.write("model");
  test::run_engine(test::world(), {.model = "model"}, [](Engine& engine) {
    EXPECT_EQ(engine.info().kind, ModelKind::non_causal);
    Request request;
    request.prompt = {1, 2, 3};
    EXPECT_EQ(test::error_of<RequestError>([&] { engine.submit(request); }),
              "cannot generate text: model is a decoder without causal attention (is_causal is false); use a "
              "model that can");
    request.max_tokens = 0;
    request.pooling = Pooling::mean;
    EXPECT_EQ(test::pooled_of(engine, request).size(), 8U);
  });
}

TEST(EngineErrors, NameATensorOfTheWrongShapeOnEveryRank) {
  Communicator& comm = test::world();
  EXPECT_EQ(
      refusal_after(comm,
                    [](TinyCheckpoint& c) {
                      c.reshape("model.layers.0.mlp.down_proj.weight", {8, 14});
                    }),
      "model.safetensors: model.layers.0.mlp.down_proj.weight is [8, 14], expected [8, 12] (hidden_size, "
      "intermediate_size)");
  EXPECT_EQ(refusal_after(comm,
                          [](TinyCheckpoint& c) {
                            c.reshape("model.embed_tokens.weight", {41, 8});
                          }),
            "model.safetensors: model.embed_tokens.weight is [41, 8], expected [40, 8] (vocab_size, "
            "hidden_size)");
  EXPECT_EQ(refusal_after(comm,
                          [](TinyCheckpoint& c) {
                            c.reshape("model.layers.0.self_attn.k_proj.weight", {8, 8});
                          }),
            "model.safetensors: model.layers.0.self_attn.k_proj.weight is [8, 8], expected [4, 8] "
            "(num_key_value_heads x head_dim, hidden_size)");
  EXPECT_EQ(refusal_after(comm, [](TinyCheckpoint& c) { c.reshape("model.norm.weight", {9}); }),
            "model.safetensors: model.norm.weight is [9], expected [8] (hidden_size)");
}

TEST(EngineErrors, NameATensorThatIsMissingOnEveryRank) {
  Communicator& comm = test::world();
  EXPECT_EQ(
      refusal_after(comm, [](TinyCheckpoint& c) { c.remove("model.layers.0.mlp.up_proj.weight"); }),
      "model: there is no tensor model.layers.0.mlp.up_proj.weight in model.safetensors (the most similar "
      "one is model.layers.0.mlp.down_proj.weight); config.json and the weights must be of the same "
      "model");
  EXPECT_EQ(refusal_after(comm, [](TinyCheckpoint& c) { c.config["attention_bias"] = true; })
                .find("model: there is no tensor model.layers.0.self_attn.q_proj.bias in model.safetensors"),
            0U);
}

TEST(EngineErrors, NameATensorOfABlockThatTheModelDoesNotUse) {
  Communicator& comm = test::world();
  EXPECT_EQ(
      refusal_after(comm, [](TinyCheckpoint& c) { c.reshape("model.layers.0.self_attn.q_proj.bias", {8}); }),
      "the checkpoint has a tensor model.layers.0.self_attn.q_proj.bias that a model of its "
      "configuration does not use; the configuration (config.json, or a GGUF file's metadata) and the "
      "weights must be of the same model");
}

TEST(EngineErrors, ReportExtraTensorsWithoutFailing) {
  Communicator& comm = test::world();
  const OwnDirectory directory;
  TinyCheckpoint checkpoint;
  checkpoint.reshape("score.weight", {2, 8});
  checkpoint.reshape("model.layers.0.self_attn.rotary_emb.inv_freq", {1});
  checkpoint.write("model");
  const int status = run_engine(comm, {.model = "model"}, [](Engine& engine) {
    EXPECT_EQ(engine.info().unused_tensors, std::vector<std::string>{"score.weight"});
  });
  EXPECT_EQ(status, 0);
}

// Each stage reads different tensors, so no single stage knows which tensors are unused.
TEST(EngineErrors, NameATensorThatNoStageUses) {
  Communicator& comm = test::world();
  if (comm.size() % 2 != 0) GTEST_SKIP() << "stages of equally many ranks";
  const OwnDirectory directory;
  TinyCheckpoint checkpoint;
  checkpoint.config["num_hidden_layers"] = 2;
  checkpoint.add_layer(1);
  checkpoint.reshape("score.weight", {2, 8});
  checkpoint.write("model");
  const int status = run_engine(comm, {.model = "model", .pipeline = 2}, [](Engine& engine) {
    EXPECT_EQ(engine.info().unused_tensors, std::vector<std::string>{"score.weight"});
  });
  EXPECT_EQ(status, 0);
  checkpoint.reshape("model.layers.1.self_attn.q_proj.bias", {8});
  checkpoint.write("model");
  EXPECT_EQ(refusal(comm, {.pipeline = 2}),
            "the checkpoint has a tensor model.layers.1.self_attn.q_proj.bias that a model of its "
            "configuration does not use; the configuration (config.json, or a GGUF file's metadata) and the "
            "weights must be of the same model");
}

TEST(EngineErrors, NameAnUnsupportedFamily) {
  Communicator& comm = test::world();
  const std::string text =
      refusal_after(comm, [](TinyCheckpoint& c) { c.config["architectures"] = {"RwkvForCausalLM"}; });
  EXPECT_CONTAINS(text,
                  "config.json: models of the family RwkvForCausalLM are not supported; supported are ");
}

TEST(EngineErrors, NameTheWrongFieldOfTheConfig) {
  Communicator& comm = test::world();
  EXPECT_EQ(refusal_after(comm, [](TinyCheckpoint& c) { c.config["hidden_size"] = 0; }),
            "model/config.json: cannot use hidden_size: found 0, expected a whole number from 1 to "
            "2147483647; the file may "
            "be damaged: get "
            "it again from where the model comes from");
}

TEST(EngineErrors, RefuseMoreRanksThanHeadsBeforeAnythingIsLoaded) {
  Communicator& comm = test::world();
  const OwnDirectory directory;
  TinyCheckpoint checkpoint;
  checkpoint.config["num_attention_heads"] = 1;
  checkpoint.config["num_key_value_heads"] = 1;
  checkpoint.write("model");
  std::filesystem::remove("model/model.safetensors");
  const std::string text = refusal(comm);
  if (comm.size() == 1) {
    EXPECT_EQ(text.find("model: "), 0U) << text;  // the missing weights
  } else {
    EXPECT_EQ(
        text,
        fmt::format(
            "cannot divide the model over {} ranks: it has 1 attention heads, so at most 1 ranks can each "
            "own one (mpirun -np 1)",
            comm.size()));
  }
}

TEST(EngineErrors, NameAFileThatIsMissingOnOneRankOnly) {
  Communicator& comm = test::world();
  for (std::size_t poor = 0; poor < comm.size(); ++poor) {
    const OwnDirectory directory;
    TinyCheckpoint().write("model");
    if (comm.rank() == poor) std::filesystem::remove("model/model.safetensors");
    const std::string text = refusal(comm);
    EXPECT_CONTAINS(text, "model.safetensors");
    EXPECT_NE(text, "no error");
  }
  // Only rank 0 reads the config.
  const OwnDirectory directory;
  TinyCheckpoint().write("model");
  if (comm.is_root()) std::filesystem::remove("model/config.json");
  EXPECT_EQ(refusal(comm),
            "model/config.json: cannot read the file: expected a JSON file, found: No such file or "
            "directory; check the path on every host");
}

TEST(EngineErrors, NameAFileThatIsTruncatedOnOneRankOnly) {
  Communicator& comm = test::world();
  for (std::size_t poor = 0; poor < comm.size(); ++poor) {
    const OwnDirectory directory;
    const TinyCheckpoint checkpoint;
    checkpoint.write("model");
    if (comm.rank() == poor)
      std::filesystem::resize_file("model/model.safetensors", checkpoint.weights().size() - 100);
    EXPECT_EQ(refusal(comm),
              "model.safetensors: tensor model.layers.0.mlp.down_proj.weight ends at byte 4576 of the data, "
              "but the "
              "file has only 4476 bytes of data; it is truncated, download it again");
  }
}

TEST(EngineErrors, NameTheRankWhoseFilesDiffer) {
  Communicator& comm = test::world();
  for (std::size_t odd = 1; odd < comm.size(); ++odd) {
    const OwnDirectory directory;
    TinyCheckpoint checkpoint;
    if (comm.rank() == odd) checkpoint.reshape("model.layers.0.mlp.down_proj.weight", {12, 8});
    checkpoint.write("model");
    const std::string text = refusal(comm);
    EXPECT_EQ(text.find("the ranks disagree about the checkpoint in model: rank 0 has "), 0U) << text;
    EXPECT_CONTAINS(text, fmt::format(", rank {} has ", odd));
    EXPECT_CONTAINS(text, "; copy the same files to every host");
  }
}

TEST(EngineErrors, NameOptionsThatCannotWork) {
  Communicator& comm = test::world();
  const OwnDirectory directory;
  TinyCheckpoint().write("model");
  EXPECT_NE(refusal(comm, {.model = "", .prefill_chunk = 0}), "no error");
  EXPECT_NE(refusal(comm, {.model = "", .max_sequences = 0}), "no error");
  EXPECT_NE(refusal(comm, {.model = "", .block_size = 0}), "no error");
  EXPECT_EQ(refusal(comm, {.model = "", .step_time = std::chrono::milliseconds(-1)}),
            "`step_time` must be a number of milliseconds, or 0 for no limit, found -1");
  EXPECT_EQ(refusal(comm, {.model = "", .same_bits = true, .wire = WireType::int8}),
            "`same_bits` needs the `wire` type f32, found int8, which rounds sums between hosts, so that "
            "results depend on the hosts; leave one of the two out");
}

std::string request_refusal(Engine& engine, const Request& request) {
  return test::error_of<RequestError>([&] { engine.submit(request); });
}

TEST(EngineErrors, EndOnlyTheFailedRequest) {
  Communicator& comm = test::world();
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const EngineOptions options{
      .model = fixture.folder, .max_length = 200, .block_size = 4, .cache_tokens = 64};
  run_engine(comm, options, [&](Engine& engine) {
    const std::uint64_t running = engine.submit(greedy_request(fixture.prompt, 16));
    test::Continuations all;
    for (const TokenEvent& event : engine.step()) test::collect(event, all);
    EXPECT_EQ(request_refusal(engine, greedy_request(std::vector<TokenId>(200, 1), 1)),
              "prompt has 200 tokens but a sequence has at most 200 (max_position_embeddings, or "
              "`max_length`), one of them generated; shorten the prompt");
    EXPECT_EQ(request_refusal(engine, greedy_request(std::vector<TokenId>(60, 1), 10)),
              "prompt and continuation have up to 70 tokens but the cache has room for 64; lower "
              "`max_tokens` or raise `cache_tokens`");
    EXPECT_EQ(request_refusal(engine, greedy_request({1, 320}, 1)),
              "prompt has token id 320, but the vocabulary has the ids 0 to 319; is it this model's prompt?");
    EXPECT_EQ(request_refusal(engine, greedy_request({-1}, 1)),
              "prompt has token id -1, but the vocabulary has the ids 0 to 319; is it this model's prompt?");
    EXPECT_EQ(request_refusal(engine, greedy_request({}, 1)),
              "cannot continue a prompt: it has 0 tokens, expected at least 1; give a text, or the model's "
              "beginning-of-sequence token");
    EXPECT_EQ(request_refusal(engine, greedy_request({1}, 0)),
              "cannot generate: `max_tokens` is 0, expected >= 1; ask for at least one token");
    Request with_stop = greedy_request({1}, 1);
    with_stop.stop = {"x"};
    EXPECT_EQ(request_refusal(engine, with_stop),
              fmt::format("stop texts need a tokenizer, but there is none in {}", fixture.folder.string()));
    EXPECT_EQ(test::error_of<CheckpointError>([&] { engine.encode("x"); }),
              "cannot tokenize: the model has no tokenizer; give token ids");
    while (engine.has_work()) {
      for (const TokenEvent& event : engine.step()) test::collect(event, all);
    }
    EXPECT_EQ((all[{running, 0}].tokens), fixture.greedy);
    EXPECT_EQ(run_alone(engine, greedy_request(fixture.prompt, 16)).tokens, fixture.greedy);
  });
}

// Products of large weights are infinite. The request ends with an error, and the engine continues.
TEST(EngineErrors, EndOnlyTheRequestWithNanLogits) {
  Communicator& comm = test::world();
  const OwnDirectory directory;
  TinyCheckpoint checkpoint;
  for (const char* name : {"model.norm.weight", "lm_head.weight"}) checkpoint.fill(name, 1e30F);
  checkpoint.write("model");
  const int status = run_engine(comm, {.model = "model"}, [](Engine& engine) {
    for (int round = 0; round < 2; ++round) {
      Request request = greedy_request({1, 2, 3}, 5);
      request.sampling.temperature = static_cast<float>(round);
      const test::Continuation found = run_alone(engine, request);
      EXPECT_EQ(found.reason, FinishReason::error);
      EXPECT_EQ(found.error.find("cannot choose a token: the model's logits are not finite"), 0U)
          << found.error;
      EXPECT_TRUE(found.tokens.empty());
      EXPECT_FALSE(engine.has_work());
    }
  });
  EXPECT_EQ(status, 0);
}

// Indexers choose among earlier tokens only, so most tokens would not see later ones.
TEST(EngineErrors, BidirectionalAttentionOfModelsWithIndexers) {
  for (const char* const name : {"deepseekv32", "minimaxm3"}) {
    const EngineOptions options{.model = reference::seeded_folder("logits", name)};
    run_engine(test::world(), options, [&](Engine& engine) {
      Request request;
      request.prompt = {1, 2, 3};
      request.max_tokens = 0;
      request.prompt_logits = true;
      request.bidirectional = true;
      EXPECT_CONTAINS(test::error_of<RequestError>([&] { engine.submit(request); }),
                      "has indexers, which choose among earlier tokens")
          << name;
    });
  }
}

}  // namespace
}  // namespace tp
