// Compares approximate caches of diffusion language models with Fast-dLLM's own code, and checks that batches
// and steps don't affect them.
#include "tests/model/weights/checkpoint_files.h"
#include "tests/mpi_test.h"
#include "tests/runtime/modes/diffusion_run.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::DiffusionCase;
using reference::DiffusionFixture;
using test::Received;
using test::request_of;
using test::run_one;
using test::teller;
using test::texts_of;

// Runs a request and counts the computed tokens of each pass.
Received run_counting(Engine& engine, Request request, std::vector<std::size_t>& computed) {
  std::map<int, Received> received;
  const EventSink tell = teller(received);
  engine.run(std::move(request), [&](const Event& event) {
    if (std::holds_alternative<TokensUnmasked>(event)) computed.push_back(engine.status().last_step_tokens);
    tell(event);
  });
  return received[0];
}

std::vector<TokenId> begun(const DiffusionFixture& fixture, std::size_t generated) {
  std::vector<TokenId> text = fixture.prompt;
  text.resize(fixture.prompt.size() + generated, fixture.mask);
  return text;
}

// The inputs of the family's code at each call. Calls on a block without masks are omitted, because nothing
// depends on them.
struct Calls {
  std::vector<std::vector<TokenId>> texts;  // whole texts, followed by the result
  std::vector<std::size_t> sizes;           // computed tokens of each call
};

Calls calls_of(const DiffusionFixture& fixture, const DiffusionCase& one) {
  std::vector<TokenId> text = begun(fixture, static_cast<std::size_t>(one.max_tokens));
  const auto length = static_cast<std::size_t>(one.settings.block_length);
  std::size_t next_block = fixture.prompt.size();
  Calls calls;
  for (const std::vector<TokenId>& call : one.calls) {
    const bool is_whole = call.size() == text.size();
    if (is_whole) next_block += length;
    const auto first = static_cast<std::ptrdiff_t>(next_block - length);
    std::ranges::copy(call, text.begin() + (is_whole ? 0 : first));
    if (std::count(text.begin() + first, text.begin() + static_cast<std::ptrdiff_t>(next_block),
                   fixture.mask) == 0)
      continue;
    calls.texts.push_back(text);
    calls.sizes.push_back(call.size());
  }
  calls.texts.push_back(one.result);
  return calls;
}

// A fixture's model with only its first layer, optionally with NaN weights.
class OneLayer {
 public:
  explicit OneLayer(const DiffusionFixture& fixture, bool is_spoilt = false) {
    nlohmann::json config = nlohmann::json::parse(std::ifstream(fixture.folder / "config.json"));
    config[config.contains("n_layers") ? "n_layers" : "num_hidden_layers"] = 1;
    directory_.write("config.json", config.dump());
    std::ifstream file(fixture.folder / "model.safetensors", std::ios::binary);
    std::uint64_t size = 0;
    file.read(reinterpret_cast<char*>(&size), sizeof(size));
    std::string text(size, ' ');
    file.read(text.data(), static_cast<std::streamsize>(size));
    const nlohmann::json header = nlohmann::json::parse(text);
    std::vector<test::TestTensor> tensors;
    for (const auto& [name, tensor] : header.items()) {
      const bool is_of_other_layer =
          name.find("s.1.") != std::string::npos || name.find("s.2.") != std::string::npos;
      if (name == "__metadata__" || is_of_other_layer) continue;
      const auto offsets = tensor.at("data_offsets").get<std::vector<std::uint64_t>>();
      std::string data(offsets[1] - offsets[0], ' ');
      file.seekg(static_cast<std::streamoff>(sizeof(size) + size + offsets[0]));
      file.read(data.data(), static_cast<std::streamsize>(data.size()));
      tensors.push_back({name, "F32", tensor.at("shape").get<std::vector<std::size_t>>(), data});
    }
    const std::string large = test::bytes_of<float>({3e38F});  // products of two are infinite
    for (test::TestTensor& tensor : tensors) {
      if (is_spoilt && tensor.name.find("norm") != std::string::npos)
        tensor.data.replace(0, large.size(), large);
    }
    directory_.write("model.safetensors", test::safetensors_file(tensors));
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  test::TemporaryDirectory directory_;
};

class UnmaskCaches : public testing::TestWithParam<std::tuple<const char*, UnmaskCache>> {
 protected:
  void run(EngineOptions options, const std::function<void(Engine&)>& body) {
    if (comm_.size() > 4) GTEST_SKIP() << comm_.size() << " ranks, 4 heads";
    if (options.model.empty()) options.model = fixture_.folder;
    test::run_engine(comm_, options, body);
  }
  // Returns a request for two blocks of 8 tokens in up to 4 passes each.
  Request request(std::uint64_t seed) const {
    Request request = test::greedy_request(fixture_.prompt, 16);
    request.sampling = {.temperature = 0.7F, .seed = seed};
    request.unmasking = Unmasking{.steps = 8, .block_length = 8};
    return request;
  }

  Communicator& comm_ = test::world();
  const DiffusionFixture fixture_ = reference::diffusion_fixture(std::get<0>(GetParam()));
  const UnmaskCache cache_ = std::get<1>(GetParam());
};

TEST(UnmaskCache, ComputesTheTokensOfFastDllmAtEveryPassAndHasItsIds) {
  Communicator& comm = test::world();
  if (comm.size() > 4) GTEST_SKIP() << comm.size() << " ranks, 4 heads";
  const DiffusionFixture fixture = reference::diffusion_fixture("llada");
  ASSERT_EQ(fixture.cached_cases.size(), 2U);
  for (const DiffusionCase& one : fixture.cached_cases) {
    const auto body = [&](Engine& engine) {
      EXPECT_EQ(engine.info().options.unmask_cache, one.settings.cache);
      std::vector<std::size_t> computed;
      const Received received = run_counting(engine, request_of(fixture, one), computed);
      const Calls expected = calls_of(fixture, one);
      EXPECT_EQ(texts_of(received, begun(fixture, 16)), expected.texts) << one.algorithm;
      EXPECT_EQ(computed, expected.sizes) << one.algorithm;
      EXPECT_EQ(engine.status().used_blocks, 0U);
    };
    test::run_engine(comm, {.model = fixture.folder, .unmask_cache = *one.settings.cache}, body);
  }
}

// Every block has several passes, in which the caches differ from each other and from exact ones. A separate
// program in double precision computed the tokens. Without approximation, it gives the fixture's.
TEST(UnmaskCache, HasTheTokensOfPassesThatReadWhatEarlierOnesHaveWritten) {
  Communicator& comm = test::world();
  if (comm.size() > 4) GTEST_SKIP() << comm.size() << " ranks, 4 heads";
  const DiffusionFixture fixture = reference::diffusion_fixture("llada");
  struct Case {
    UnmaskCache cache;
    int steps;
    int block_length;
    std::vector<TokenId> tokens;
  };
  const std::vector<Case> cases = {
      {UnmaskCache::prefix, 12, 8, {106, 106, 106, 106, 106, 106, 106, 106, 106, 106, 235, 187,
                                    143, 187, 195, 195, 60,  187, 171, 155, 171, 187, 187, 187}},
      {UnmaskCache::prefix,
       8,
       8,
       {106, 106, 106, 106, 138, 138, 106, 86, 235, 235, 235, 235, 235, 235, 195, 195}},
      {UnmaskCache::dual,
       8,
       8,
       {106, 106, 106, 106, 138, 138, 106, 106, 235, 235, 235, 235, 235, 235, 195, 195}},
      {UnmaskCache::dual, 8, 16, {106, 106, 106, 106, 106, 106, 182, 106, 106, 106, 106,
                                  106, 106, 106, 106, 106, 187, 187, 187, 155, 195, 218,
                                  187, 187, 187, 140, 140, 195, 195, 195, 187, 123}}};
  test::run_engine(comm, {.model = fixture.folder, .unmask_cache = UnmaskCache::dual}, [&](Engine& engine) {
    for (const Case& one : cases) {
      Request request = test::greedy_request(fixture.prompt, static_cast<int>(one.tokens.size()));
      request.unmasking = Unmasking{.steps = one.steps, .block_length = one.block_length, .cache = one.cache};
      EXPECT_EQ(run_one(engine, request).tokens, one.tokens)
          << name_of(one.cache) << ", blocks of " << one.block_length;
    }
  });
}

// Keys and values of the first layer depend only on their own token.
TEST_P(UnmaskCaches, AreExactInAModelOfOneLayer) {
  const OneLayer model(fixture_);
  run({.model = model.path(), .same_bits = true, .unmask_cache = cache_}, [&](Engine& engine) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      Request exact = request(seed);
      exact.unmasking->cache = UnmaskCache::exact;
      std::vector<std::size_t> computed;
      const Received received = run_counting(engine, request(seed), computed);
      EXPECT_EQ(texts_of(received, begun(fixture_, 16)),
                texts_of(run_one(engine, exact), begun(fixture_, 16)));
      // A row of Dream's logits is about the next token.
      const std::size_t before = fixture_.name == "dream" ? 1 : 0;
      const std::size_t first = before + (cache_ == UnmaskCache::dual ? 8 : 16);
      ASSERT_GE(computed.size(), 4U);
      EXPECT_EQ(computed.front(), 30U);
      EXPECT_EQ(computed[1], first);
      EXPECT_EQ(computed.back(), before + 8);
    }
  });
}

TEST_P(UnmaskCaches, GiveTheSameTextInAnyBatchAndAnyCache) {
  std::vector<std::vector<TokenId>> alone;
  run({.same_bits = true, .unmask_cache = cache_}, [&](Engine& engine) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) alone.push_back(run_one(engine, request(seed)).tokens);
  });
  // Texts of 8 blocks, and steps of 40 tokens.
  for (const std::size_t blocks : {10, 17, 30}) {
    const EngineOptions crowded{.same_bits = true,
                                .unmask_cache = cache_,
                                .prefill_chunk = 1,
                                .max_sequences = 3,
                                .max_length = 40,
                                .block_size = 4,
                                .cache_tokens = 4 * blocks};
    run(crowded, [&](Engine& engine) {
      std::vector<std::map<int, Received>> received(alone.size());
      for (std::size_t seed = 0; seed < alone.size(); ++seed) {
        Request one = request(seed);
        one.priority = seed % 2 == 0 ? 1 : 0;
        one.n = seed == 1 ? 3 : 1;
        engine.submit(one, teller(received[seed]));
        engine.step();
      }
      while (engine.has_work()) engine.step();
      for (std::size_t seed = 0; seed < alone.size(); ++seed)
        EXPECT_EQ(received[seed][0].tokens, alone[seed]) << blocks << " blocks, seed " << seed;
      EXPECT_EQ(received[1][2].tokens.size(), 16U);
      EXPECT_NE(received[1][2].tokens, received[1][0].tokens);
      EXPECT_EQ(engine.status().preemptions, 0U);
      EXPECT_EQ(engine.status().used_blocks, 0U);
    });
  }
}

TEST_P(UnmaskCaches, AreReleasedByARequestThatIsCancelledForOneThatWaits) {
  const EngineOptions crowded{.unmask_cache = cache_, .max_length = 40, .block_size = 4, .cache_tokens = 40};
  for (const int steps : {1, 2, 3, 5}) {
    run(crowded, [&](Engine& engine) {
      std::map<int, Received> first;
      std::map<int, Received> second;
      const RequestId id = engine.submit(request(1), teller(first));
      engine.submit(request(2), teller(second));
      for (int step = 0; step < steps; ++step) engine.step();
      EXPECT_GT(engine.status().used_blocks, 0U) << "between the passes of a block";
      engine.cancel(id);
      while (engine.has_work()) engine.step();
      EXPECT_EQ(engine.status().finished.cancelled, 1U);
      EXPECT_EQ(second[0].tokens.size(), 16U);
      EXPECT_EQ(engine.status().used_blocks, 0U);
    });
  }
}

TEST_P(UnmaskCaches, AreReleasedAtTheEndOfATextWithinABlock) {
  run({.same_bits = true, .unmask_cache = cache_}, [&](Engine& engine) {
    Request left_to_right = request(1);
    left_to_right.unmasking->rule = UnmaskRule::sequential;
    const std::vector<TokenId> whole = run_one(engine, left_to_right).tokens;
    left_to_right.stop_token_ids = {whole[2]};
    left_to_right.ignore_eos = false;
    const Received received = run_one(engine, left_to_right);
    EXPECT_EQ(received.reason, FinishReason::stop);
    EXPECT_LE(received.tokens.size(), 3U);
    EXPECT_EQ(engine.status().used_blocks, 0U);
  });
}

TEST_P(UnmaskCaches, AreReleasedByATextWhoseLogitsAreNotFinite) {
  const OneLayer model(fixture_, true);
  run({.model = model.path(), .unmask_cache = cache_}, [&](Engine& engine) {
    std::map<int, Received> received;
    engine.submit(request(1), teller(received));
    while (engine.has_work()) engine.step();
    EXPECT_CONTAINS(received[0].error, "not finite");
    EXPECT_EQ(engine.status().used_blocks, 0U);
  });
}

TEST_P(UnmaskCaches, AreTheRequestsChoice) {
  std::vector<TokenId> exact;
  std::vector<TokenId> cached;
  run({.same_bits = true}, [&](Engine& engine) { exact = run_one(engine, request(1)).tokens; });
  run({.same_bits = true, .unmask_cache = cache_},
      [&](Engine& engine) { cached = run_one(engine, request(1)).tokens; });
  const UnmaskCache other = cache_ == UnmaskCache::dual ? UnmaskCache::prefix : UnmaskCache::dual;
  run({.same_bits = true, .unmask_cache = other}, [&](Engine& engine) {
    Request one = request(1);
    one.unmasking->cache = UnmaskCache::exact;
    EXPECT_EQ(run_one(engine, one).tokens, exact);
    one.unmasking->cache = cache_;
    EXPECT_EQ(run_one(engine, one).tokens, cached);
  });
}

TEST_P(UnmaskCaches, AreRefusedByAnEngineWithoutMemoryForThem) {
  run({}, [&](Engine& engine) {
    Request one = request(1);
    one.unmasking->cache = cache_;
    const std::string text = test::error_of<RequestError>([&] { engine.submit(one); });
    EXPECT_CONTAINS(text, fmt::format("`unmask_cache` {}: expected exact", name_of(cache_)));
  });
}

INSTANTIATE_TEST_SUITE_P(All, UnmaskCaches,
                         testing::Combine(testing::Values("llada", "dream"),
                                          testing::Values(UnmaskCache::prefix, UnmaskCache::dual)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param),
                                              name_of(std::get<1>(info.param)));
                         });

TEST(UnmaskCache, IsRejectedForModelsWithAnExactCacheOrNoCache) {
  Communicator& comm = test::world();
  const auto expect = [&](const std::filesystem::path& model, const std::string& part) {
    const std::string text = test::error_of<Error>([&] {
      const Engine engine(comm, {.model = model, .unmask_cache = UnmaskCache::prefix, .threads = 1});
    });
    EXPECT_CONTAINS(text, "cannot approximate by `unmask_cache` prefix: expected");
    EXPECT_CONTAINS(text, part);
  };
  const DiffusionFixture sdar = reference::diffusion_fixture("sdar");
  expect(sdar.folder, "found SDARForCausalLM, whose finished blocks stay in the cache, which is exact");
  expect(reference::fixture("llama-gqa").folder, "found LlamaForCausalLM; leave it out");
  test::run_engine(comm, {.model = sdar.folder}, [&](Engine& engine) {
    Request one = test::greedy_request(sdar.prompt, 16);
    one.unmasking = Unmasking{.cache = UnmaskCache::dual};
    EXPECT_THROW(engine.submit(one), RequestError);
    one.unmasking->cache = UnmaskCache::exact;
    EXPECT_EQ(run_one(engine, one).tokens.size(), 16U);
  });
}

}  // namespace
}  // namespace tp
