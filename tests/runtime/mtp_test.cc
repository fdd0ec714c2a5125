// Guesses of the model's own layer for multi-token prediction: they change no text, and are right always
// where the layer is built to know what the model is going to choose.
#include "runtime/engine/hidden_states.h"
#include "tests/model/next_token_checkpoint.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine_run.h"
#include "tests/runtime/speculated_requests.h"
#include "tp/error.h"

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::expect_no_change;
using test::expect_no_change_however_steps_are_cut;
using test::greedy_request;
using test::ModelFolder;
using test::run_all;
using test::run_engine;
using test::Tensors;
using test::Values;

constexpr std::array kBoth = {DraftRanks::first, DraftRanks::all};

SpeculationOptions mtp(DraftRanks ranks = DraftRanks::all) {
  return {.drafts = DraftKind::mtp, .tokens = 4, .always = true, .ranks = ranks};
}

constexpr std::size_t kVocab = 64;
constexpr std::size_t kHidden = 64;
constexpr std::size_t kExperts = 4;

json small_glm() {
  return {{"architectures", {"Glm4MoeForCausalLM"}},
          {"attention_bias", false},
          {"eos_token_id", 0},
          {"first_k_dense_replace", 0},
          {"head_dim", 16},
          {"hidden_act", "silu"},
          {"hidden_size", kHidden},
          {"intermediate_size", 96},
          {"max_position_embeddings", 256},
          {"moe_intermediate_size", 24},
          {"n_group", 1},
          {"n_routed_experts", kExperts},
          {"n_shared_experts", 1},
          {"norm_topk_prob", true},
          {"num_attention_heads", 4},
          {"num_experts_per_tok", 2},
          {"num_hidden_layers", 1},
          {"num_key_value_heads", 4},
          {"num_nextn_predict_layers", 1},
          {"partial_rotary_factor", 0.5},
          {"rms_norm_eps", 1e-12},
          {"rope_theta", 10000},
          {"routed_scaling_factor", 1.0},
          {"tie_word_embeddings", false},
          {"topk_group", 1},
          {"torch_dtype", "float32"},
          {"use_qk_norm", false},
          {"vocab_size", kVocab}};
}

using Element = std::function<float(std::size_t row, std::size_t column)>;

Values matrix(std::size_t rows, std::size_t columns, const Element& element) {
  Values values{{rows, columns}, {}};
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) values.elements.push_back(element(row, column));
  }
  return values;
}

// A block whose attention adds nothing, so that every token is by itself. `spread`: of the weights of
// experts.
void add_block(const std::string& prefix, float spread, Tensors& tensors) {
  reference::Random random(7);
  const auto add = [&](const std::string& name, std::size_t rows, std::size_t columns, float scale) {
    tensors[prefix + name + ".weight"] =
        matrix(rows, columns, [&](std::size_t, std::size_t) { return scale * random.number(); });
  };
  const auto add_mlp = [&](const std::string& name) {
    add(name + "gate_proj", 24, kHidden, spread);
    add(name + "up_proj", 24, kHidden, spread);
    add(name + "down_proj", kHidden, 24, spread);
  };
  for (const char* const projection : {"q_proj", "k_proj", "v_proj"})
    add(std::string("self_attn.") + projection, 64, kHidden, 0.2F);
  add("self_attn.o_proj", kHidden, 64, 0.0F);
  add("mlp.gate", kExperts, kHidden, 0.2F);
  tensors[prefix + "mlp.gate.e_score_correction_bias"] = {{kExperts}, std::vector<float>(kExperts, 0.0F)};
  add_mlp("mlp.shared_experts.");
  for (std::size_t i = 0; i < kExperts; ++i) add_mlp("mlp.experts." + std::to_string(i) + ".");
  for (const char* const norm : {"input_layernorm", "post_attention_layernorm"})
    tensors[prefix + norm + ".weight"] = {{kHidden}, std::vector<float>(kHidden, 1.0F)};
}

// `projection`: its element in a row and a column of [vector; state].
Tensors model_with_layer(const Element& embedding, const Element& head, float spread,
                         const Element& projection) {
  Tensors tensors;
  const Values ones{{kHidden}, std::vector<float>(kHidden, 1.0F)};
  const std::string layer = "model.layers.1.";
  add_block("model.layers.0.", spread, tensors);
  add_block(layer, spread, tensors);
  tensors["model.embed_tokens.weight"] = matrix(kVocab, kHidden, embedding);
  tensors["lm_head.weight"] = matrix(kVocab, kHidden, head);
  tensors[layer + "eh_proj.weight"] = matrix(kHidden, 2 * kHidden, projection);
  for (const std::string& norm :
       {std::string("model.norm"), layer + "enorm", layer + "hnorm", layer + "shared_head.norm"})
    tensors[norm + ".weight"] = ones;
  return tensors;
}

std::size_t follower(std::size_t token) { return (token * 5 + 3) % kVocab; }

// Behind a token always the same one follows. The layer knows it from the state alone, which it turns into
// that of the next token, so that it needs every state at its place, its own ones, too.
Tensors model_whose_layer_reads_states() {
  return model_with_layer([](std::size_t token, std::size_t i) { return token == i ? 1.0F : 0.0F; },
                          [](std::size_t token, std::size_t i) { return follower(i) == token ? 4.0F : 0.0F; },
                          0.0F,
                          [](std::size_t row, std::size_t column) {
                            return column >= kHidden && follower(column - kHidden) == row ? 1.0F : 0.0F;
                          });
}

// What follows depends on the token alone. The layer reads nothing but that, and has the model's block.
Tensors model_whose_layer_copies_it() {
  reference::Random random(3);
  const Values signs = matrix(kVocab, kHidden, [&](std::size_t, std::size_t) {
    return random.coin() ? 1.0F : -1.0F;  // vectors that a norm keeps
  });
  return model_with_layer([&](std::size_t row, std::size_t i) { return signs.elements[row * kHidden + i]; },
                          [&](std::size_t, std::size_t) { return 0.4F * random.number(); }, 0.3F,
                          [](std::size_t row, std::size_t column) { return row == column ? 1.0F : 0.0F; });
}

std::vector<TokenId> prompt_of(std::size_t size, std::size_t first) {
  std::vector<TokenId> prompt;
  for (std::size_t i = 0; i < size; ++i) prompt.push_back(static_cast<TokenId>((first + i * i * 7) % kVocab));
  return prompt;
}

TEST(Mtp, IsRightAlwaysWhereItKnowsWhatFollowsFromStates) {
  const test::TemporaryDirectory folder;
  test::write_checkpoint(folder.path(), small_glm(), model_whose_layer_reads_states());
  for (const DraftRanks ranks : kBoth) {
    for (const std::size_t chunk : {8, 64}) {
      SCOPED_TRACE(testing::Message()
                   << "chunks of " << chunk << (ranks == DraftRanks::all ? ", all ranks" : ""));
      EngineOptions options{
          .model = folder.path(), .prefill_chunk = chunk, .max_sequences = 4, .block_size = 4};
      options.speculation = mtp(ranks);
      run_engine(test::world(), options, [&](Engine& engine) {
        for (const std::size_t size : {1, 2, 9, 30, 41, 30}) {
          Request request = greedy_request(prompt_of(size, size % 10), 30);
          request.n = size == 9 ? 3 : 1;
          engine.submit(request);
        }
        const test::Continuations all = run_all(engine);
        for (const auto& [key, one] : all) {
          ASSERT_EQ(one.tokens.size(), 30U);
          for (std::size_t i = 1; i < one.tokens.size(); ++i)
            EXPECT_EQ(static_cast<std::size_t>(one.tokens[i]),
                      follower(static_cast<std::size_t>(one.tokens[i - 1])));
        }
        // Again, with prompts that are found in the cache.
        engine.submit(greedy_request(prompt_of(30, 0), 30));
        run_all(engine);
        const SpeculationCounts counts = engine.status().speculation;
        EXPECT_EQ(counts.accepted_tokens(), counts.drafted_tokens());
        // 9 texts of 30 tokens: each begins with one, and then five come at a time, where steps have room.
        EXPECT_GE(counts.accepted_tokens(), chunk == 8 ? 100U : 9U * 23);
      });
    }
  }
}

TEST(Mtp, IsRightAlwaysWhereItCopiesTheModelWhateverIsDrawn) {
  const test::TemporaryDirectory folder;
  test::write_checkpoint(folder.path(), small_glm(), model_whose_layer_copies_it());
  for (const DraftRanks ranks : kBoth) {
    SCOPED_TRACE(ranks == DraftRanks::all ? "all ranks" : "first rank");
    EngineOptions options{.model = folder.path()};
    options.speculation = mtp(ranks);
    run_engine(test::world(), options, [&](Engine& engine) {
      for (const float temperature : {0.0F, 0.8F}) {
        for (std::uint64_t seed = 1; seed < 5; ++seed) {
          Request request = greedy_request(prompt_of(5 + seed, seed), 40);
          request.sampling.temperature = temperature;
          request.sampling.seed = seed;
          request.sampling.top_p = seed == 4 ? 0.8F : 1.0F;
          request.n = seed == 2 ? 3 : 1;
          engine.submit(request);
        }
      }
      const test::Continuations all = run_all(engine);
      EXPECT_NE((all.at({2, 0}).tokens), (all.at({3, 0}).tokens)) << "nothing is drawn";
      const SpeculationCounts counts = engine.status().speculation;
      EXPECT_EQ(counts.accepted_tokens(), counts.drafted_tokens());
      EXPECT_GE(counts.accepted_tokens(), 12U * 31);
    });
  }
}

// A fixture's model and a layer that has learned nothing.
class WithRandomLayer {
 public:
  explicit WithRandomLayer(const reference::Fixture& fixture) : folder_(fixture) {
    json config = test::config_in(fixture.folder);
    Tensors tensors = test::tensors_of(fixture.folder);
    test::add_next_token_layer(config, tensors, true);
    test::write_checkpoint(folder_.path(), config, tensors);
  }

  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  ModelFolder folder_;
};

TEST(Mtp, ChangesNoTextHoweverStepsAreCut) {
  const reference::Fixture fixture = reference::fixture("deepseek3-yarn");
  const WithRandomLayer model(fixture);
  expect_no_change_however_steps_are_cut(
      {.model = model.path(), .weights = WeightType::f32, .same_bits = true, .speculation = mtp()},
      test::speculated_requests(fixture));
}

TEST(Mtp, ChangesNoTextOfRecurrentLayersAndOfMeasuredRows) {
  for (const char* const name : {"qwen3next", "deepseek3-yarn"}) {
    const reference::Fixture fixture = reference::fixture(name);
    const WithRandomLayer model(fixture);
    const std::vector<Request> requests = {test::drawn(test::repetitive_prompt(fixture, 10, 5), 1),
                                           test::drawn(test::repetitive_prompt(fixture, 30, 7), 2)};
    EngineOptions options{
        .model = model.path(), .weights = WeightType::f32, .same_bits = true, .prefill_chunk = 16};
    const test::Continuations expected = test::plain_answers(options, requests);
    for (const DraftRanks ranks : kBoth) {
      for (const DraftKind kind : {DraftKind::mtp, DraftKind::automatic}) {
        SCOPED_TRACE(testing::Message()
                     << name << (ranks == DraftRanks::all ? ", all ranks" : ", first rank"));
        options.speculation = mtp(ranks);
        options.speculation.drafts = kind;
        options.speculation.always = false;
        expect_no_change(options, requests, expected);
      }
    }
  }
}

// Only some ranks keep states then, and all must agree on whether a step can be divided.
TEST(Mtp, GoesWithHalfBatchesAndHiddenStatesForOthers) {
  const reference::Fixture fixture = reference::fixture("deepseek3-yarn");
  const WithRandomLayer model(fixture);
  Request embedded;
  embedded.prompt = test::repetitive_prompt(fixture, 12, 3);
  embedded.max_tokens = 0;
  embedded.prompt_hidden = true;
  const auto states_of = [&](const EngineOptions& options) {
    std::vector<float> states;
    run_engine(test::world(), options, [&](Engine& engine) {
      for (int round = 0; round < 2; ++round) {
        engine.submit(greedy_request(test::repetitive_prompt(fixture, 20, 5 + round), 12));
        engine.submit(embedded, [&](const Event& event) {
          if (const auto* some = std::get_if<PromptHidden>(&event))
            states.insert(states.end(), some->states.begin(), some->states.end());
        });
        run_all(engine);
      }
    });
    return states;
  };
  EngineOptions options{.model = model.path(), .weights = WeightType::f32, .same_bits = true};
  const std::vector<float> expected = states_of(options);
  EXPECT_EQ(expected.empty(), !test::world().is_root());
  options.two_batch_overlap = TwoBatchOverlap::on;
  for (const DraftRanks ranks : kBoth) {
    options.speculation = mtp(ranks);
    EXPECT_EQ(states_of(options), expected);
  }
}

TEST(Mtp, SaysWhatItTakesAndIsWhatAutoTakesWithoutADraftModel) {
  const WithRandomLayer model(reference::fixture("deepseek3-yarn"));
  for (const DraftKind kind : {DraftKind::mtp, DraftKind::automatic}) {
    EngineOptions options{.model = model.path()};
    options.speculation = mtp();
    options.speculation.drafts = kind;
    run_engine(test::world(), options, [&](Engine& engine) {
      const auto& draft = engine.info().draft;
      ASSERT_TRUE(draft);
      EXPECT_TRUE(draft->is_layer);
      EXPECT_EQ(draft->ranks, test::world().size());
      EXPECT_LT(draft->parameters, engine.info().parameters);
      EXPECT_LT(draft->cache_bytes, engine.info().cache_bytes);
      EXPECT_TRUE(engine.info().unused_tensors.empty());
    });
  }
  run_engine(test::world(), {.model = model.path()}, [&](Engine& engine) {
    ASSERT_EQ(engine.info().unused_tensors.size(), 1U);
    EXPECT_CONTAINS(engine.info().unused_tensors.front(), "tensors of multi-token prediction layers");
  });
  EngineOptions options{.model = reference::fixture("deepseek3-yarn").folder};
  options.speculation = mtp();
  options.speculation.drafts = DraftKind::automatic;
  run_engine(test::world(), options, [&](Engine& engine) { EXPECT_FALSE(engine.info().draft); });
}

void expect_refusal(const EngineOptions& options, const std::vector<std::string>& parts) {
  const std::string error = test::error_of<AgreedError>([&] { Engine engine(test::world(), options); });
  for (const std::string& part : parts) EXPECT_CONTAINS(error, part);
}

TEST(Mtp, RefusesCheckpointsWithoutTheLayer) {
  EngineOptions options{.model = reference::fixture("deepseek3-yarn").folder, .speculation = mtp()};
  expect_refusal(options, {"expected the model's layer for it, with model.layers.", "eh_proj.weight",
                           "found no such tensor in", "or guess in another way"});
  options.model = reference::fixture("qwen3next").folder;
  expect_refusal(options, {"with mtp.fc.weight"});
  options.model = reference::fixture("llama-gqa").folder;
  expect_refusal(options,
                 {"expected a family whose checkpoints have a layer for it", "found LlamaForCausalLM"});
}

TEST(Mtp, RefusesAPipeline) {
  if (test::world().size() % 2 != 0)
    GTEST_SKIP() << "stages divide the ranks evenly: an even number of ranks";
  const WithRandomLayer model(reference::fixture("deepseek3-yarn"));
  EngineOptions options{.model = model.path(), .pipeline = 2, .speculation = mtp()};
  expect_refusal(options, {"expected ranks that all have the model's last hidden states", "found 2 stages",
                           "leave `pipeline` out"});
  options.speculation.drafts = DraftKind::automatic;
  run_engine(test::world(), options, [&](Engine& engine) { EXPECT_FALSE(engine.info().draft); });
}

TEST(HiddenStates, KeepTheLatestAndForgetTheOldest) {
  HiddenStates states(3, 2);
  const auto keep = [&](std::size_t position, float value) {
    states.keep(5, position, std::array{value, -value});
  };
  const auto at = [&](std::size_t position) {
    const float* const state = states.find(5, position);
    return state == nullptr ? 0.0F : state[0] == -state[1] ? state[0] : -1.0F;
  };
  keep(0, 1.0F);
  keep(1, 2.0F);
  keep(1, 3.0F);  // a guess was wrong
  EXPECT_EQ(at(0), 1.0F);
  EXPECT_EQ(at(1), 3.0F);
  EXPECT_EQ(states.find(4, 1), nullptr);
  keep(2, 4.0F);
  EXPECT_EQ(at(0), 0.0F);
  keep(3, 5.0F);  // where the wrong guess was
  EXPECT_EQ(at(1), 3.0F);
  keep(4, 6.0F);
  EXPECT_EQ(at(1), 0.0F);
  EXPECT_EQ(at(2), 4.0F);
  EXPECT_EQ(at(3), 5.0F);
  EXPECT_EQ(at(4), 6.0F);
}

}  // namespace
}  // namespace tp
