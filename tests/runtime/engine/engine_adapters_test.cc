// Requests with adapters share steps with other requests, but no cached data.
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/store/store_run.h"
#include "tp/error.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::AdapterFixture;
using test::Continuation;
using test::expect_same;
using test::run_all;
using test::run_alone;
using test::run_engine;

class EngineAdapters : public testing::Test {
 protected:
  // The model with one adapter twice: with its full scale and with half of it.
  EngineOptions options() const {
    return {.model = fixture_.base,
            .weights = WeightType::f32,
            .kv_type = KvType::f32,
            .same_bits = true,
            .prefill_chunk = 16,
            .max_length = 128,
            .block_size = 4,
            .adapters = {{.name = "whole", .path = fixture_.folder / "adapter"},
                         {.name = "half", .path = fixture_.folder / "adapter", .scale = 0.5}}};
  }
  Request asked(const std::string& adapter, int max_tokens = 12) const {
    Request request = test::greedy_request(fixture_.prompt, max_tokens);
    request.sampling.logprobs = 3;
    request.adapter = adapter;
    return request;
  }

  Communicator& comm_ = test::world();
  const AdapterFixture fixture_ = reference::adapter_fixture("lora-llama");
};

TEST_F(EngineAdapters, GivesEveryRequestTheBitsOfARunByItself) {
  run_engine(comm_, options(), [&](Engine& engine) {
    const std::vector<std::string> names = {"whole", "", "half", "whole", "half", ""};
    std::vector<RequestId> ids;
    for (const std::string& name : names) {
      Request request = asked(name);
      request.cache_prompt = false;
      ids.push_back(engine.submit(request));
    }
    test::Continuations together = run_all(engine);
    for (std::size_t i = 0; i < names.size(); ++i) {
      SCOPED_TRACE(names[i]);
      Request request = asked(names[i]);
      request.cache_prompt = false;
      expect_same(together[{ids[i], 0}], run_alone(engine, request));
    }
    EXPECT_EQ(run_alone(engine, asked("whole", 16)).tokens, fixture_.greedy);
    EXPECT_EQ(run_alone(engine, asked("", 16)).tokens, reference::fixture("llama-gqa").greedy);
  });
}

TEST_F(EngineAdapters, GivesTheSameBitsWithStagesAndDrafts) {
  EngineOptions plain = options();
  Continuation expected;
  const auto ask = [&](Continuation& into) {
    return [&](Engine& engine) { into = run_alone(engine, asked("half")); };
  };
  run_engine(comm_, plain, ask(expected));
  Continuation found;
  EngineOptions drafting = plain;
  drafting.speculation = {.drafts = DraftKind::ngram, .always = true};
  run_engine(comm_, drafting, ask(found));
  expect_same(found, expected);
  EngineOptions staged = plain;
  staged.pipeline = comm_.size();
  if (comm_.size() > 2) return;  // the model has two layers
  run_engine(comm_, staged, ask(found));
  expect_same(found, expected);
}

TEST_F(EngineAdapters, SharesPrefixesOnlyAmongPromptsOfOneAdapter) {
  run_engine(comm_, options(), [&](Engine& engine) {
    const std::string identity = engine.info().adapters.front().identity;
    EXPECT_NE(identity, engine.info().adapters.back().identity) << "scales differ";
    for (const std::string name : {"whole", "half", ""}) {
      EXPECT_EQ(run_alone(engine, asked(name)).cached_tokens, 0U) << name;
      EXPECT_GT(run_alone(engine, asked(name)).cached_tokens, 0U) << name;
    }
    // A client can't forge a salt that reaches another adapter's prompts.
    Request attempt = asked("");
    attempt.cache_salt = std::string("\0adapter ", 9) + identity + '\0';
    EXPECT_EQ(run_alone(engine, attempt).cached_tokens, 0U);
    EXPECT_GT(run_alone(engine, attempt).cached_tokens, 0U);
    Request salted = asked("whole");
    salted.cache_salt = "mine";
    EXPECT_EQ(run_alone(engine, salted).cached_tokens, 0U);
  });
}

TEST_F(EngineAdapters, StoresPromptsOfEachAdapterSeparately) {
  const test::StoreFolderTest store;
  EngineOptions storing = options();
  storing.kv_store = comm_.is_root() ? store.path() : std::filesystem::path();
  storing.kv_store_min = 8;
  Continuation expected;
  run_engine(comm_, storing, [&](Engine& engine) { expected = run_alone(engine, asked("whole")); });
  // Neither names nor other adapters are part of the identity.
  storing.adapters = {{.name = "other", .path = fixture_.folder / "adapter", .scale = 2.0},
                      {.name = "renamed", .path = fixture_.folder / "adapter"}};
  run_engine(comm_, storing, [&](Engine& engine) {
    for (const std::string name : {"other", ""}) {
      EXPECT_EQ(run_alone(engine, asked(name)).cached_tokens, 0U) << name;
      EXPECT_EQ(engine.status().store.restored_tokens, 0U) << name;
    }
    const Continuation read = run_alone(engine, asked("renamed"));
    expect_same(read, expected);
    EXPECT_GT(engine.status().store.restored_tokens, 0U);
  });
}

TEST_F(EngineAdapters, SearchesBeamsWithTheRequestsAdapter) {
  const auto search = [&](const std::string& adapter) {
    Request request = asked(adapter, 8);
    request.sampling.logprobs = -1;
    request.beam_search = BeamSearch{.beams = 2};
    return request;
  };
  run_engine(comm_, options(), [&](Engine& engine) {
    const Continuation base = run_alone(engine, search(""));
    const Continuation whole = run_alone(engine, search("whole"));
    EXPECT_NE(base.tokens, whole.tokens);
  });
}

TEST_F(EngineAdapters, NamesTheLoadedAdapters) {
  const auto error_of = [](Engine& engine, const Request& request) {
    return test::error_of<RequestError>([&] { engine.submit(request); });
  };
  run_engine(comm_, options(), [&](Engine& engine) {
    EXPECT_CONTAINS(error_of(engine, asked("french")), "there is no adapter french: expected whole, half");
    Request unset = asked("");
    unset.adapter.reset();
    EXPECT_CONTAINS(error_of(engine, unset), "name one of whole, half");
  });
  EngineOptions chosen = options();
  chosen.default_adapter = "half";
  run_engine(comm_, chosen, [&](Engine& engine) {
    Request unset = asked("");
    unset.adapter.reset();
    expect_same(run_alone(engine, unset), run_alone(engine, asked("half")));
    EXPECT_GT(engine.info().adapter_bytes, 0U);
  });
}

// Without the final norm's gain, all logits are 0, and the first token is chosen.
TEST_F(EngineAdapters, ReplacesTensorsOfTheModelForAllRequests) {
  const test::TemporaryDirectory folder;  // other ranks don't know the folder
  const std::filesystem::path shared = test::of_root(folder.path());
  if (comm_.is_root()) {
    const std::string name = "base_model.model.model.norm.weight";
    folder.write("adapter_model.safetensors",
                 test::safetensors_file({{name, "F32", {96}, std::string(96 * sizeof(float), '\0')}}));
    folder.write("adapter_config.json", R"({"peft_type": "LORA", "modules_to_save": ["norm"]})");
  }
  EngineOptions replacing = options();
  replacing.adapters = {{.name = "silent", .path = shared}};
  run_engine(comm_, replacing, [&](Engine& engine) {
    EXPECT_EQ(run_alone(engine, asked("silent", 4)).tokens, std::vector<TokenId>(4, 0));
    EXPECT_THROW(engine.submit(asked("")), RequestError);
  });
  replacing.adapters.push_back(options().adapters.front());
  EXPECT_THROW(Engine(comm_, replacing), AgreedError);
}

TEST_F(EngineAdapters, RejectsDuplicateNames) {
  EngineOptions twice = options();
  twice.adapters.back().name = "whole";
  EXPECT_THROW(Engine(comm_, twice), AgreedError);
  EngineOptions missing = options();
  missing.adapters.back().path = "/nowhere";
  EXPECT_THROW(Engine(comm_, missing), AgreedError);
}

// Falcon-H1's GGUF files have its multipliers in their weights, and so have adapters in GGUF.
TEST_F(EngineAdapters, OfAnotherFormThanAModelWithFactorsAreRefused) {
  EngineOptions options{.model = reference::seeded_folder("logits", "falconh1")};
  options.adapters = {
      {.name = "other", .path = std::filesystem::path(TP_TEST_DATA) / "gguf_lora/lora-llama/adapter.gguf"}};
  EXPECT_CONTAINS(test::error_of<Error>([&] { run_engine(test::world(), options, [](Engine&) {}); }),
                  "expected a folder in PEFT's layout, found a GGUF file");
}

}  // namespace
}  // namespace tp
