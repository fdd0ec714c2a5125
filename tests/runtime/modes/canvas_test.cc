// DiffusionGemma's fixture: logits of passes over given canvases, and whole generations with given random
// tokens.
#include "runtime/step/worker.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/reference/diffusion_fixture.h"
#include "tests/runtime/modes/diffusion_run.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"
#include "tp/mpi.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;
using reference::CanvasCase;
using reference::CanvasFixture;
using test::Received;
using test::run_engine;
using test::run_one;
using test::teller;

// Source: the fixtures' README.
constexpr double kCanvasTolerance = 1e-3;

const CanvasFixture& canvas_fixture() {
  static const CanvasFixture fixture = reference::canvas_fixture("diffusiongemma");
  return fixture;
}

// Runs passes of one sequence each, from its first token on, in one or several chunks.
class CanvasWorker {
 public:
  CanvasWorker(Communicator& comm, bool same_bits = false)
      : plan_(make_plan({.model = canvas_fixture().folder,
                         .same_bits = same_bits,
                         .max_sequences = 2,
                         .block_size = 8,
                         .cache_tokens = 512,
                         .threads = 1},
                        comm.size())),
        worker_(comm, plan_, {}, {}) {}

  // Returns the canvas's logits, [canvas, vocab_size], on rank 0. `before`: number of tokens in a first
  // chunk.
  std::vector<float> logits(const std::vector<TokenId>& canvas, const PassCanvas& pass, float temperature,
                            std::size_t before = 0) {
    std::vector<TokenId> text = canvas_fixture().prompt;
    const std::size_t prompt = text.size();
    text.insert(text.end(), canvas.begin(), canvas.end());
    ++sequence_;
    if (before > 0) run(text, 0, before, pass, temperature, {});
    const RowRange rows{static_cast<std::uint32_t>(prompt - before),
                        static_cast<std::uint32_t>(canvas.size())};
    const ProposalSettings settings{.measure = ProposalMeasure::entropy, .filtered = true, .greedy = true};
    const std::vector<Result> results =
        run(text, before, text.size(), pass, temperature,
            {{sequence_, rows, want::Logits{}}, {sequence_, rows, want::Proposal{settings}}});
    return results.empty() ? std::vector<float>() : std::get<WholeRows>(results[0]).values;
  }

 private:
  std::vector<Result> run(const std::vector<TokenId>& text, std::size_t begin, std::size_t end,
                          const PassCanvas& pass, float temperature, std::vector<Output> outputs) {
    const std::size_t groups = plan_.cache_groups(plan_.spec()).windows.size();
    const std::size_t blocks = (text.size() + 7) / 8;
    Forward forward;
    forward.tokens.assign(text.begin() + static_cast<std::ptrdiff_t>(begin),
                          text.begin() + static_cast<std::ptrdiff_t>(end));
    SequenceChunk chunk{
        .sequence = sequence_, .start_position = begin, .tokens = static_cast<std::uint32_t>(end - begin)};
    if (begin == 0) {
      for (std::size_t block = 0; block < groups * blocks; ++block)
        chunk.new_blocks.push_back(static_cast<BlockId>(block));
      chunk.start = SequenceStart{
          .sampling = {.temperature = temperature}, .seed = 5, .prompt_tokens = text.size(), .canvas = pass};
    }
    forward.chunks = {chunk};
    forward.outputs = std::move(outputs);
    return worker_.run(forward).results;
  }

  EnginePlan plan_;
  Worker worker_;
  SequenceId sequence_ = 0;
};

PassCanvas canvas_pass(std::uint64_t key, bool has_next) {
  return {.begin = canvas_fixture().prompt.size(), .key = key, .has_next = has_next};
}

// Returns the logits of the fixture's three passes. The first two leave soft embeddings with temperatures 0.8
// and 0.6.
std::vector<std::vector<float>> three_passes(CanvasWorker& worker, std::uint64_t key,
                                             std::size_t before = 0) {
  const CanvasFixture& fixture = canvas_fixture();
  const float temperatures[] = {0.8F, 0.6F, 0.4F};
  std::vector<std::vector<float>> logits;
  for (std::size_t pass = 0; pass < 3; ++pass)
    logits.push_back(
        worker.logits(fixture.canvases[pass], canvas_pass(key, pass < 2), temperatures[pass], before));
  return logits;
}

TEST(Canvas, HasTheLogitsOfTheOriginalCodeWithAndWithoutSoftEmbeddings) {
  Communicator& comm = test::world();
  for (const std::size_t before : {0, 5, 21}) {  // chunks end within the text, or at its end
    CanvasWorker worker(comm);
    const auto logits = three_passes(worker, 7, before);
    for (std::size_t pass = 0; pass < 3 && comm.is_root(); ++pass)
      EXPECT_LE(canvas_fixture().logits[pass].difference(logits[pass]), kCanvasTolerance)
          << pass << ", " << before;
  }
}

TEST(Canvas, HasTheSameBitsOnAnyNumberOfRanks) {
  Communicator& comm = test::world();
  CanvasWorker together(comm, true);
  Communicator alone(MPI_COMM_SELF);
  CanvasWorker single(alone, true);
  const auto expected = three_passes(single, 1);
  const auto found = three_passes(together, 1);
  if (!comm.is_root()) return;
  EXPECT_EQ(found, expected);
}

// The fixture's folder with a generation_config.json.
class ConfiguredFolder {
 public:
  explicit ConfiguredFolder(const json& generation) {
    for (const auto& entry : std::filesystem::directory_iterator(canvas_fixture().folder))
      std::filesystem::create_symlink(entry.path(), directory_.path() / entry.path().filename());
    directory_.write("generation_config.json", generation.dump());
  }
  std::filesystem::path path() const { return directory_.path(); }

 private:
  test::TemporaryDirectory directory_;
};

json generation_config_of(const CanvasDefaults& settings) {
  return {{"max_denoising_steps", settings.max_denoising_steps},
          {"t_min", settings.t_min},
          {"t_max", settings.t_max},
          {"sampler_config",
           {{"_cls_name", "EntropyBoundSamplerConfig"}, {"entropy_bound", settings.entropy_bound}}},
          {"stability_threshold", settings.stability_threshold},
          {"confidence_threshold", settings.confidence_threshold}};
}

Request canvas_request(std::size_t tokens) {
  return test::greedy_request(canvas_fixture().prompt, static_cast<int>(tokens));
}

Request drawn_request(std::size_t tokens, std::uint64_t seed) {
  Request request = canvas_request(tokens);
  request.sampling = {.temperature = 1.0F, .seed = seed};
  request.unmasking = Unmasking{.steps = static_cast<int>(tokens)};  // 8 passes for each canvas of 8 tokens
  return request;
}

std::vector<std::size_t> positions_in_canvas(const std::vector<UnmaskedToken>& pass) {
  std::vector<std::size_t> positions;
  for (const UnmaskedToken& token : pass)
    positions.push_back((token.position - canvas_fixture().prompt.size()) % 8);
  return positions;
}

TEST(Canvas, AcceptsWhatTheOriginalCodeDoesInEveryPassIfRandomTokensAreGiven) {
  for (const CanvasCase& one : canvas_fixture().cases) {
    const ConfiguredFolder folder(generation_config_of(one.settings));
    for (const bool same_bits : {false, true}) {
      run_engine(test::world(), {.model = folder.path(), .same_bits = same_bits}, [&](Engine& engine) {
        EXPECT_EQ(engine.info().generation.canvas, one.settings);
        Request request = canvas_request(one.result.size());
        request.unmasking = Unmasking{.canvases = canvas_fixture().noise};
        const Received received = run_one(engine, request);
        EXPECT_EQ(received.tokens, one.result);
        EXPECT_EQ(received.reason, FinishReason::length);
        ASSERT_EQ(received.passes.size(), one.accepted.size());
        for (std::size_t pass = 0; pass < received.passes.size(); ++pass)
          EXPECT_EQ(positions_in_canvas(received.passes[pass]), one.accepted[pass]) << pass;
        // The greedy proposals are the most probable tokens.
        for (const UnmaskedToken& token : received.passes.front())
          EXPECT_EQ(token.id, one.best.front()[positions_in_canvas({token}).front()]);
      });
    }
  }
}

void run_canvas(const std::function<void(Engine&)>& body, EngineOptions options = {}) {
  options.model = canvas_fixture().folder;
  run_engine(test::world(), options, body);
}

TEST(Canvas, DrawsTheSameTextFromASeedOnAnyNumberOfRanks) {
  std::vector<TokenId> alone;
  Communicator self(MPI_COMM_SELF);
  run_engine(self, {.model = canvas_fixture().folder, .same_bits = true},
             [&](Engine& engine) { alone = run_one(engine, drawn_request(24, 3)).tokens; });
  EXPECT_EQ(alone.size(), 24U);
  run_canvas(
      [&](Engine& engine) {
        EXPECT_EQ(engine.info().default_sampling.temperature, 1.0F);
        EXPECT_EQ(run_one(engine, drawn_request(24, 3)).tokens, alone);
        EXPECT_NE(run_one(engine, drawn_request(24, 4)).tokens, alone);
      },
      {.same_bits = true});
}

TEST(Canvas, DrawsTheSameTextsInAnyBatch) {
  run_canvas(
      [](Engine& engine) {
        Request request = drawn_request(16, 7);
        request.n = 3;
        std::map<int, Received> together;
        engine.run(request, teller(together));
        std::set<std::vector<TokenId>> different;
        for (const auto& [sample, received] : together) different.insert(received.tokens);
        EXPECT_EQ(different.size(), 3U);
        EXPECT_EQ(run_one(engine, drawn_request(16, 7)).tokens, together[0].tokens);
        Request cut = drawn_request(16, 7);
        cut.sampling.top_k = 3;
        EXPECT_NE(run_one(engine, cut).tokens, together[0].tokens);
      },
      {.same_bits = true});
}

TEST(Canvas, GivesTheSameTextFromAPromptInChunksAndACrowdedCache) {
  std::vector<TokenId> whole;
  run_canvas([&](Engine& engine) { whole = run_one(engine, drawn_request(40, 3)).tokens; },
             {.same_bits = true, .block_size = 4});
  run_canvas(
      [&](Engine& engine) {
        std::vector<std::map<int, Received>> received(9);
        for (std::map<int, Received>& one : received) engine.submit(drawn_request(40, 3), teller(one));
        while (engine.has_work()) engine.step();
        for (std::map<int, Received>& one : received) EXPECT_EQ(one[0].tokens, whole);
      },
      {.same_bits = true, .prefill_chunk = 9, .max_sequences = 2, .block_size = 4, .cache_tokens = 140});
}

TEST(Canvas, FindsTheTextInTheCacheButNoCanvas) {
  run_canvas(
      [](Engine& engine) {
        const std::vector<TokenId> with = run_one(engine, drawn_request(40, 3)).tokens;
        EXPECT_GT(engine.status().prefix_hits, 1000U);  // 40 passes over 29 to 61 tokens
        Request alone = drawn_request(40, 3);
        alone.cache_prompt = false;
        const auto hits = engine.status().prefix_hits;
        EXPECT_EQ(run_one(engine, alone).tokens, with);
        EXPECT_EQ(engine.status().prefix_hits, hits);
        // An earlier answer's text replaces a canvas.
        Request again = drawn_request(40, 3);
        again.unmasking->canvases = {std::vector<TokenId>(with.begin(), with.begin() + 8)};
        alone.unmasking = again.unmasking;
        EXPECT_EQ(run_one(engine, again).tokens, run_one(engine, alone).tokens);
      },
      {.same_bits = true, .block_size = 4});
}

TEST(Canvas, EndsEarlyIfItsTokensAreStableAndCertain) {
  for (const std::size_t stability : {0, 3}) {
    CanvasDefaults settings;
    settings.stability_threshold = stability;
    settings.confidence_threshold = 100.0F;  // always certain
    const ConfiguredFolder folder(generation_config_of(settings));
    run_engine(test::world(), {.model = folder.path()}, [&](Engine& engine) {
      Request request = canvas_request(16);
      request.sampling.seed = 3;
      const Received received = run_one(engine, request);
      EXPECT_EQ(received.tokens.size(), 16U);
      const std::size_t passes = received.passes.size();
      EXPECT_TRUE(stability == 0 ? passes == 2 : passes >= 8) << passes << " passes over two canvases";
    });
  }
}

TEST(Canvas, EndsAtAnEndTokenAndAtTheContextsEnd) {
  run_canvas(
      [](Engine& engine) {
        const std::vector<TokenId> whole = run_one(engine, drawn_request(24, 3)).tokens;
        Request request = drawn_request(24, 3);
        request.ignore_eos = false;
        request.stop_token_ids = {whole[10]};
        const auto end = std::ranges::find(whole, whole[10]) + 1;
        const Received received = run_one(engine, request);
        EXPECT_EQ(received.tokens, std::vector<TokenId>(whole.begin(), end));
        EXPECT_EQ(received.reason, FinishReason::stop);
        Request longest = canvas_request(1000);
        longest.unmasking = Unmasking{};
        EXPECT_EQ(run_one(engine, longest).tokens.size(), 50 - canvas_fixture().prompt.size());
      },
      {.same_bits = true, .max_length = 50});
}

TEST(Canvas, CanBeCancelledBetweenPasses) {
  run_canvas(
      [](Engine& engine) {
        for (int i = 0; i < 5; ++i) {  // more requests than have room for soft embeddings
          const RequestId id = engine.submit(drawn_request(16, 3));
          for (int step = 0; step <= i; ++step) engine.step();
          engine.cancel(id);
          while (engine.has_work()) engine.step();
        }
        EXPECT_EQ(engine.status().finished.cancelled, 5U);
        EXPECT_EQ(run_one(engine, drawn_request(16, 3)).reason, FinishReason::length);
      },
      {.max_sequences = 2});
}

TEST(Canvas, GivesTheTextsLogitsLikeADecoder) {
  run_canvas([](Engine& engine) {
    const std::vector<float> whole = test::all_logits(engine, canvas_fixture().prompt);
    const std::span<const TokenId> prompt(canvas_fixture().prompt);
    const std::vector<float> part = test::all_logits(engine, prompt.first(9));
    ASSERT_EQ(part.size(), 9 * 256U);
    for (std::size_t i = 0; i < part.size(); ++i) EXPECT_NEAR(part[i], whole[i], 1e-4) << i;
  });
}

TEST(Canvas, RejectsUnsupportedRequests) {
  run_canvas([](Engine& engine) {
    const auto refusal = [&](const auto& change) -> std::string {
      Request request = canvas_request(16);
      request.unmasking.emplace();
      change(request);
      return test::error_of<RequestError>([&] { engine.submit(request); });
    };
    const auto expect = [&](const std::string& found, const std::string& part) {
      EXPECT_CONTAINS(found, part);
    };
    expect(refusal([](Request& request) { request.unmasking->rule = UnmaskRule::entropy; }),
           "cannot unmask tokens with `unmask`: this model has no masks");
    expect(refusal([](Request& request) { request.unmasking->threshold = 0.5F; }), "with `threshold`");
    expect(refusal([](Request& request) { request.unmasking->cache = UnmaskCache::dual; }), "expected exact");
    expect(refusal([](Request& request) { request.unmasking->block_length = 9; }), "at most the model's 8");
    expect(refusal([](Request& request) { request.unmasking->steps = 3; }), "a multiple of the 2 blocks");
    expect(refusal([](Request& request) { request.unmasking->canvases = {{1, 2}}; }), "`canvases`");
    expect(refusal([](Request& request) {
             request.unmasking->canvases = {{1, 2, 3, 4, 5, 6, 7, 256}};
           }),
           "`canvases`");
    expect(refusal([](Request& request) { request.sampling.min_p = 0.1F; }), "`min_p`");
  });
  if (test::world().size() % 2 != 0) return;
  EXPECT_CONTAINS(test::error_of<Error>([&] {
                    run_canvas([](Engine&) { ADD_FAILURE() << "it has a pipeline"; }, {.pipeline = 2});
                  }),
                  "pipeline stages");
}

}  // namespace
}  // namespace tp
