// Trained drafters compute the same numbers as the reference code on any number of ranks, their drafts and
// acceptances match that code's run, and they never change a text.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/open_checkpoint.h"
#include "runtime/setup/plan_agreement.h"
#include "runtime/step/draft_model.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/drafter_fixture.h"
#include "tests/reference/json_file.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/speculation/gguf_drafter.h"
#include "tests/runtime/speculation/speculated_requests.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::DrafterFixture;
using test::Continuations;
using test::run_engine;

// The two float32 programs differ by 2e-5 at most; meta.json allows 1e-3.
constexpr double kTolerance = 1e-4;
constexpr std::array<std::pair<DraftRanks, bool>, 3> kRuns = {
    {{DraftRanks::first, false}, {DraftRanks::all, false}, {DraftRanks::all, true}}};
constexpr SequenceId kSequence = 7;
constexpr std::size_t kBlock = 8;

EngineOptions options_of(const DrafterFixture& fixture, DraftRanks ranks, bool same_bits = false) {
  EngineOptions options{.model = fixture.target, .same_bits = same_bits, .block_size = kBlock, .threads = 1};
  options.speculation = {
      .drafts = DraftKind::model, .tokens = 5, .always = true, .model = fixture.draft, .ranks = ranks};
  return options;
}

DrafterConfig config_of(const DrafterFixture& fixture) { return load_config(fixture.draft).drafter; }

// The fixtures, and copies whose drafters are GGUF files. No file describes DSpark.
const std::vector<DrafterFixture>& all_fixtures() {
  static const test::TemporaryDirectory directory;
  static const std::vector<DrafterFixture> kAll = [] {
    std::vector<DrafterFixture> all = reference::drafter_fixtures();
    for (DrafterFixture copy : reference::drafter_fixtures()) {
      if (config_of(copy).kind == DrafterKind::dspark) continue;
      const std::filesystem::path file = directory.path() / (copy.name + ".gguf");
      test::write_gguf_drafter(copy, file);
      copy.name += " in GGUF";
      copy.draft = file;
      all.push_back(copy);
    }
    return all;
  }();
  return kAll;
}

std::vector<DrafterFixture> fixtures_of(DrafterKind kind) {
  std::vector<DrafterFixture> fixtures = all_fixtures();
  std::erase_if(fixtures, [&](const DrafterFixture& fixture) { return config_of(fixture).kind != kind; });
  EXPECT_FALSE(fixtures.empty());
  return fixtures;
}

TEST(CapturedStreams, AreTheOriginalCodes) {
  for (const DrafterFixture& fixture : reference::drafter_fixtures()) {
    const CheckpointConfig config = load_config(fixture.target);
    const std::vector<std::size_t> places = captured_places(config_of(fixture), config.num_hidden_layers);
    EXPECT_EQ(places, fixture.places) << fixture.name;
    const auto source = open_checkpoint(fixture.target);
    for (const bool in_halves : {false, true}) {
      SCOPED_TRACE(fixture.name + (in_halves ? ", in halves" : ""));
      test::ModelUnderTest model(test::world(), config, *source, {.chunk = 9, .in_halves = in_halves});
      model.capture(places);
      const std::vector<TokenId> text = fixture.text(SIZE_MAX);
      model.append(text);
      for (std::size_t i = 0; i < places.size(); ++i) {
        std::vector<float> stream;
        for (std::size_t token = 0; token < text.size(); ++token) {
          const float* const row = model.streams().data() + (token * places.size() + i) * config.hidden_size;
          stream.insert(stream.end(), row, row + config.hidden_size);
        }
        EXPECT_LE(fixture.streams.at(places[i]).difference(stream), kTolerance) << "place " << places[i];
      }
    }
  }
}

// A target that has computed a text, and its drafter, either on all ranks or on the first one.
class DraftingPair {
 public:
  DraftingPair(const DrafterFixture& fixture, DraftRanks ranks, bool same_bits)
      : options_(options_of(fixture, ranks, same_bits)),
        plan_(agree_on_plan(test::world(), options_)),
        draft_plan_(agree_on_draft(test::world(), options_, {}, plan_).value()),
        worker_(test::world(), plan_, {}, {}) {
    worker_.add_draft(load_draft(test::world(), draft_plan_, plan_, worker_.tables()));
    Forward forward = chunk_of(fixture.text(SIZE_MAX), 0);
    worker_.run(forward);
  }

  bool drafts_here() { return worker_.draft() != nullptr; }

  // Caches the context for these tokens, which start at position 0.
  void give_context(const std::vector<TokenId>& tokens) {
    Forward forward = chunk_of(tokens, 0);
    forward.chunks.front().start->bidirectional = true;
    forward.gives_context = true;
    EXPECT_TRUE(worker_.draft()->worker().run(forward).results.empty());
  }

  // Returns the drafter's logits after the last `outputs` tokens. `from_own`: the drafter starts from its own
  // state at the previous position. Shape: [outputs, vocab_size] on rank 0.
  std::vector<float> logits(const std::vector<TokenId>& tokens, std::size_t position, std::size_t outputs,
                            bool from_own = false) {
    Forward forward = chunk_of(tokens, position);
    forward.reads_own_states = from_own;
    const std::size_t first = tokens.size() - outputs;
    forward.outputs.push_back({kSequence,
                               {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(outputs)},
                               want::Logits{}});
    const std::vector<Result> results = worker_.draft()->worker().run(forward).results;
    return test::world().is_root() ? std::get<WholeRows>(results.front()).values : std::vector<float>();
  }

  // Returns the most likely tokens after the last `outputs` tokens of a block.
  std::vector<Chosen> chosen(const std::vector<TokenId>& tokens, std::size_t position, std::size_t outputs) {
    Forward forward = chunk_of(tokens, position);
    const std::size_t first = tokens.size() - outputs;
    forward.outputs.push_back({kSequence,
                               {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(outputs)},
                               want::Choose{}});
    const std::vector<Result> results = worker_.draft()->worker().run(forward).results;
    return test::world().is_root() ? std::get<std::vector<Chosen>>(results.front()) : std::vector<Chosen>();
  }

 private:
  static Forward chunk_of(const std::vector<TokenId>& tokens, std::size_t position) {
    Forward forward;
    forward.tokens = tokens;
    SequenceChunk chunk{.sequence = kSequence,
                        .start_position = position,
                        .tokens = static_cast<std::uint32_t>(tokens.size())};
    if (position == 0) {
      constexpr BlockId kBlocks = 6;
      for (BlockId block = 0; block < kBlocks; ++block) chunk.new_blocks.push_back(block);
      chunk.start = SequenceStart{};
      chunk.start->sampling.temperature = 0.0F;
    }
    forward.chunks.push_back(chunk);
    return forward;
  }

  EngineOptions options_;
  EnginePlan plan_;
  DraftPlan draft_plan_;
  Worker worker_;
};

// Returns the logits of the drafter's vocabulary in ascending order of token ids.
std::vector<float> known_logits(std::span<const float> logits) {
  std::vector<float> known;
  std::ranges::copy_if(logits, std::back_inserter(known), [](float logit) { return logit > -INFINITY; });
  return known;
}

std::vector<TokenId> tokens_without_first(const std::vector<TokenId>& text, TokenId next) {
  std::vector<TokenId> tokens(text.begin() + 1, text.end());
  tokens.push_back(next);
  return tokens;
}

TEST(Eagle3, ComputesTheLogitsOfItsOwnCode) {
  for (const DrafterFixture& fixture : fixtures_of(DrafterKind::eagle3)) {
    for (const auto& [ranks, same_bits] : kRuns) {
      SCOPED_TRACE(fixture.name + (ranks == DraftRanks::all ? ", all ranks" : ", first rank") +
                   (same_bits ? ", same bits" : ""));
      DraftingPair pair(fixture, ranks, same_bits);
      if (!pair.drafts_here()) continue;
      const bool is_root = test::world().is_root();
      const std::vector<float> prefill = known_logits(pair.logits(
          tokens_without_first(fixture.prompt, fixture.greedy.front()), 0, fixture.prompt.size()));
      if (is_root) {
        EXPECT_LE(fixture.prefill.difference(prefill), kTolerance);
      }
      for (const reference::ExpectedDraft& draft : fixture.drafts) {
        std::vector<TokenId> tokens = tokens_without_first(fixture.text(draft.context), draft.next);
        std::size_t position = 0;
        for (std::size_t i = 0; i < draft.ids.size(); ++i) {
          const std::vector<float> logits = pair.logits(tokens, position, 1, i != 0);
          position += tokens.size();
          tokens = {draft.ids[i]};
          if (!is_root) continue;
          EXPECT_EQ(std::ranges::max_element(logits) - logits.begin(), draft.ids[i]);
          EXPECT_EQ(known_logits(logits).size(), fixture.draft_vocab);
          EXPECT_LE(draft.rows.difference(i, known_logits(logits)), kTolerance)
              << "context " << draft.context << ", draft token " << i;
        }
      }
    }
  }
}

TEST(DraftBlocks, HaveTheLogitsOfTheirOwnCode) {
  for (const DrafterKind kind : {DrafterKind::dflash, DrafterKind::dspark}) {
    for (const DrafterFixture& fixture : fixtures_of(kind)) {
      const DrafterConfig config = config_of(fixture);
      for (const auto& [ranks, same_bits] : kRuns) {
        SCOPED_TRACE(fixture.name + (ranks == DraftRanks::all ? ", all ranks" : ", first rank") +
                     (same_bits ? ", same bits" : ""));
        DraftingPair pair(fixture, ranks, same_bits);
        if (!pair.drafts_here()) continue;
        for (const reference::ExpectedDraft& draft : fixture.drafts) {
          pair.give_context(fixture.text(draft.context));
          std::vector<TokenId> block(config.block_size, config.mask_token);
          block.front() = draft.next;
          const std::vector<float> logits = pair.logits(block, draft.context, draft.ids.size());
          const std::vector<Chosen> chosen = pair.chosen(block, draft.context, draft.ids.size());
          if (!test::world().is_root()) continue;
          EXPECT_LE(draft.rows.difference(logits), kTolerance) << "context " << draft.context;
          for (std::size_t i = 0; i < draft.ids.size(); ++i) {
            EXPECT_EQ(chosen[i].id, draft.ids[i]);
            EXPECT_EQ(chosen[i].confidence.has_value(), !draft.confidence.empty());
            if (chosen[i].confidence) {
              EXPECT_NEAR(*chosen[i].confidence, draft.confidence.at(i), kTolerance);
            }
          }
        }
      }
    }
  }
}

TEST(Drafters, AreRightAsOftenAsInTheirOwnCodesRun) {
  for (const DrafterFixture& fixture : all_fixtures()) {
    std::vector<std::uint64_t> accepted(kMaxDraftTokens, 0);
    std::size_t tokens = 1;
    for (const reference::DraftRound& round : fixture.rounds) {
      for (std::size_t i = 0; i < round.accepted; ++i) ++accepted[i];
      tokens += round.accepted + 1;
    }
    for (const auto& [ranks, same_bits] : kRuns) {
      SCOPED_TRACE(fixture.name + (ranks == DraftRanks::all ? ", all ranks" : ", first rank") +
                   (same_bits ? ", same bits" : ""));
      const DraftRanks where = ranks;
      run_engine(test::world(), options_of(fixture, ranks, same_bits), [&](Engine& engine) {
        const auto found =
            test::run_alone(engine, test::greedy_request(fixture.prompt, static_cast<int>(tokens)));
        const std::vector<TokenId> text = fixture.text(fixture.prompt.size() + tokens);
        EXPECT_TRUE(std::ranges::equal(found.tokens, std::span(text).subspan(fixture.prompt.size())));
        const SpeculationCounts counts = engine.status().speculation;
        EXPECT_TRUE(std::ranges::equal(counts.accepted, accepted)) << counts.accepted_tokens();
        EXPECT_TRUE(counts.failure.empty()) << counts.failure;
        const auto& draft = engine.info().draft;
        ASSERT_TRUE(draft);
        EXPECT_EQ(draft->drafter, name_of(config_of(fixture).kind));
        EXPECT_EQ(draft->captured_places, fixture.places);
        EXPECT_EQ(draft->ranks, where == DraftRanks::all ? test::world().size() : 1);
      });
    }
  }
}

// The exact bits of the drafter's numbers decide which tokens it drafts, so the counts reveal any difference.
// DFlash's fixture has no accepted drafts, so the test compares only its texts.
TEST(Drafters, GiveTheSameTextsAndDraftsForCachedPrefixesAndInBatches) {
  for (const DrafterFixture& fixture : reference::drafter_fixtures()) {
    SCOPED_TRACE(fixture.name);
    run_engine(test::world(), options_of(fixture, DraftRanks::all, true), [&](Engine& engine) {
      const auto accepted_by = [&](std::size_t texts) {
        const std::uint64_t before = engine.status().speculation.accepted_tokens();
        for (std::size_t i = 0; i < texts; ++i) engine.submit(test::greedy_request(fixture.prompt, 12));
        for (const auto& [key, one] : test::run_all(engine))
          EXPECT_TRUE(std::ranges::equal(one.tokens, std::span(fixture.greedy).first(12)));
        return engine.status().speculation.accepted_tokens() - before;
      };
      const std::uint64_t alone = accepted_by(1);
      if (config_of(fixture).kind != DrafterKind::dflash) {
        EXPECT_GT(alone, 0U) << "the test proves nothing";
      }
      EXPECT_EQ(accepted_by(1), alone) << "a prompt that is found in the caches";
      EXPECT_EQ(accepted_by(3), 3 * alone);
    });
  }
}

std::string refusal_of(const EngineOptions& options) {
  return test::error_of<AgreedError>([&] { Engine engine(test::world(), options); });
}

// Only the first rank loads the drafter, and all ranks fail.
TEST(Drafters, FailOnAllRanksIfTheFirstRankCannotLoadThem) {
  const DrafterFixture fixture = reference::drafter_fixture("dspark-qwen3");
  reference::Fixture draft;
  draft.folder = fixture.draft;
  const test::ModelFolder folder(draft);
  nlohmann::json config = reference::read_json(fixture.draft / "config.json");
  config["enable_confidence_head"] = false;
  folder.write("config.json", config.dump());
  EngineOptions options = options_of(fixture, DraftRanks::first);
  options.speculation.model = folder.path();
  EXPECT_CONTAINS(refusal_of(options), "found confidence_head.proj");
}

TEST(Drafters, RefuseTargetsThatDoNotFit) {
  const DrafterFixture eagle = reference::drafter_fixture("eagle3-llama");
  const DrafterFixture dflash = reference::drafter_fixture("dflash-qwen3");
  EngineOptions options = options_of(dflash, DraftRanks::all);
  options.model = eagle.target;
  EXPECT_CONTAINS(refusal_of(options), "expected a target with 8 layers (num_target_layers), found 7");
  options = options_of(eagle, DraftRanks::all);
  options.model = reference::fixture("llama-gqa").folder;
  EXPECT_CONTAINS(refusal_of(options),
                  "expected a target whose hidden_size is 64, as its config.json says, found 96");
  options.model = reference::fixture("gemma3n").folder;
  EXPECT_CONTAINS(refusal_of(options), "expected a model with one residual stream");
  options = {.model = eagle.draft};
  EXPECT_CONTAINS(refusal_of(options), "found a trained drafter (EAGLE-3), which only drafts for its target");
  if (test::world().size() % 2 != 0) return;
  options = options_of(eagle, DraftRanks::all);
  options.pipeline = 2;
  EXPECT_CONTAINS(refusal_of(options), "found 2 stages of `pipeline`");
}

// Returns the drafter fixture's target as a fixture, so that ModelFolder can give it a tokenizer.
reference::Fixture as_fixture(const DrafterFixture& fixture) {
  reference::Fixture target;
  target.name = fixture.name;
  target.folder = fixture.target;
  target.prompt = fixture.prompt;
  return target;
}

// Untrained drafters are right only by chance.
constexpr std::uint64_t kMinAccepted = 3;

TEST(Drafters, ChangeNoTextForAnyStepSize) {
  for (const char* const name : {"eagle3-llama", "dspark-qwen3"}) {
    SCOPED_TRACE(name);
    const DrafterFixture fixture = reference::drafter_fixture(name);
    const test::ModelFolder folder(as_fixture(fixture));
    EngineOptions options = options_of(fixture, DraftRanks::all, true);
    options.model = folder.path();
    test::expect_no_change_however_steps_are_cut(options, test::speculated_requests(as_fixture(fixture)),
                                                 kMinAccepted);
  }
}

TEST(Drafters, ChangeNoTextOnTheFirstRankOrWhileMeasuring) {
  for (const char* const name : {"eagle3-speculators", "dflash-qwen3"}) {
    SCOPED_TRACE(name);
    const DrafterFixture fixture = reference::drafter_fixture(name);
    const test::ModelFolder folder(as_fixture(fixture));
    const std::vector<Request> requests = test::speculated_requests(as_fixture(fixture));
    EngineOptions options = options_of(fixture, DraftRanks::first, true);
    options.model = folder.path();
    EngineOptions plain = options;
    plain.speculation = {};
    const Continuations expected = test::plain_answers(plain, requests);
    test::expect_no_change(options, requests, expected, kMinAccepted);
    options.speculation.drafts = DraftKind::automatic;
    options.speculation.ranks = DraftRanks::all;
    options.speculation.always = false;
    test::expect_no_change(options, requests, expected);
    options.two_batch_overlap = TwoBatchOverlap::on;
    options.speculation.always = true;
    options.speculation.drafts = DraftKind::model;
    test::expect_no_change(options, requests, expected, kMinAccepted);
  }
}

}  // namespace
}  // namespace tp
