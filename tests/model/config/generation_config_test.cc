#include "model/config/generation_config.h"

#include "model/config/generation_fields.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

namespace tp {
namespace {

using test::error_of;
using test::TemporaryDirectory;

GenerationConfig load(const std::string& text) {
  const TemporaryDirectory directory;
  directory.write("generation_config.json", text);
  return load_generation_config(directory.path(), /*has_canvases=*/true);
}

template <class E>
std::string refusal_of(const std::string& text) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("generation_config.json", text).string();
  const std::string error = error_of<E>([&] { load_generation_config(directory.path(), true); });
  EXPECT_EQ(error.find(path + ": "), 0U) << error;
  return error.substr(std::min(error.size(), path.size() + 2));
}

TEST(GenerationConfig, IsGreedyWithoutAFile) {
  const TemporaryDirectory directory;
  const GenerationConfig config = load_generation_config(directory.path());
  EXPECT_TRUE(config.sampling.greedy());
  EXPECT_TRUE(config.eos_token_ids.empty());
}

TEST(GenerationConfig, IsGreedyByDefault) {
  EXPECT_TRUE(load("{}").sampling.greedy());
  EXPECT_TRUE(load(R"({"do_sample": false, "temperature": 0.6})").sampling.greedy());
  EXPECT_FALSE(load(R"({"do_sample": true})").sampling.greedy());
}

TEST(GenerationConfig, ReadsTheFilesRecommendations) {
  const GenerationConfig config = load(R"({"do_sample": true, "temperature": 0.5, "top_p": 0.75, "top_k": 20,
      "min_p": 0.25, "repetition_penalty": 1.5, "eos_token_id": [2, 32000]})");
  EXPECT_EQ(config.sampling.temperature, 0.5F);
  EXPECT_EQ(config.sampling.top_p, 0.75F);
  EXPECT_EQ(config.sampling.top_k, 20);
  EXPECT_EQ(config.sampling.min_p, 0.25F);
  EXPECT_EQ(config.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(config.eos_token_ids, (std::vector<TokenId>{2, 32000}));
}

TEST(GenerationConfig, KeepsTheFiftyBestByDefaultLikeTransformers) {
  EXPECT_EQ(load(R"({"do_sample": true})").sampling.top_k, 50);
  EXPECT_EQ(load(R"({"do_sample": true, "top_k": 0})").sampling.top_k, 0);
  EXPECT_EQ(load(R"({"do_sample": true, "top_k": null})").sampling.top_k, 50);
}

TEST(GenerationConfig, TakesNumbersAsPeopleWriteThem) {
  EXPECT_EQ(load(R"({"do_sample": true, "top_k": -1})").sampling.top_k, 0);
  EXPECT_EQ(load(R"({"do_sample": true, "top_k": 50.0})").sampling.top_k, 50);
  EXPECT_EQ(load(R"({"do_sample": true, "top_p": 0})").sampling.top_k, 1);
  EXPECT_EQ(load(R"({"do_sample": true, "top_p": 1, "min_p": null, "temperature": 1})").sampling.top_p, 1.0F);
  EXPECT_EQ(load(R"({"eos_token_id": [2.0, -1, 7]})").eos_token_ids, (std::vector<TokenId>{2, 7}));
  EXPECT_EQ(load(R"({"max_new_tokens": -1, "max_length": null})").generation.max_tokens(3), std::nullopt);
}

// Returns the limits for prompts of 10 tokens.
TEST(GenerationConfig, LimitsLengthsAsTransformersDoes) {
  const auto limits = [](const std::string& text) {
    const GenerationDefaults defaults = load(text).generation;
    return std::pair(defaults.min_tokens(10), defaults.max_tokens(10).value_or(0));
  };
  using Limits = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(limits("{}"), (Limits{0, 0}));
  EXPECT_EQ(limits(R"({"min_length": 30, "max_length": 50})"), (Limits{20, 40}));
  EXPECT_EQ(limits(R"({"min_new_tokens": 3, "max_new_tokens": 5})"), (Limits{3, 5}));
  EXPECT_EQ(limits(R"({"min_length": 30, "max_length": 50, "min_new_tokens": 3, "max_new_tokens": 5})"),
            (Limits{3, 5}));
  EXPECT_EQ(limits(R"({"min_length": 10, "max_length": 10})"), (Limits{0, 0}));
}

TEST(GenerationConfig, ComesFromConfigJsonInOlderModels) {
  const TemporaryDirectory directory;
  directory.write("config.json", R"({"no_repeat_ngram_size": 3, "min_length": 56, "max_length": 142,
      "do_sample": true, "temperature": 0.5, "bos_token_id": 0, "force_bos_token_to_be_generated": true})");
  const GenerationConfig config = load_generation_config(directory.path());
  EXPECT_EQ(config.generation.no_repeat_ngram, 3U);
  EXPECT_EQ(config.generation.min_tokens(1), 55U);
  EXPECT_EQ(config.generation.max_tokens(1), 141U);
  EXPECT_EQ(config.generation.forced_first, 0);
  EXPECT_EQ(config.sampling.temperature, 0.5F);
  // transformers wrote this default of its own.
  directory.write("config.json", R"({"max_length": 20})");
  EXPECT_EQ(load_generation_config(directory.path()).generation.max_tokens(1), std::nullopt);
  // generation_config.json replaces all of these fields except tokens.
  directory.write("config.json", R"({"no_repeat_ngram_size": 3, "max_length": 9, "forced_bos_token_id": 5})");
  directory.write("generation_config.json", R"({"max_length": 20})");
  const GenerationConfig own = load_generation_config(directory.path());
  EXPECT_EQ(own.generation.no_repeat_ngram, 0U);
  EXPECT_EQ(own.generation.max_tokens(1), 19U);
  EXPECT_EQ(own.generation.forced_first, 5);
}

TEST(GenerationConfig, HasBiasesOfSingleTokens) {
  const GenerationConfig config =
      load(R"({"sequence_bias": [[[7], -2.5], [[8, 9], -Infinity], [[3], -Infinity]]})");
  ASSERT_EQ(config.sampling.logit_bias.size(), 1U);
  EXPECT_EQ(config.sampling.logit_bias[0].id, 7);
  EXPECT_EQ(config.sampling.logit_bias[0].bias, -2.5F);
  EXPECT_EQ(config.generation.bad_words, (std::vector<std::vector<TokenId>>{{8, 9}, {3}}));
  EXPECT_EQ(config.notice, "");
  EXPECT_CONTAINS(load(R"({"sequence_bias": [[[7, 8], 1.5]]})").notice,
                  "sequence_bias of several tokens is not");
}

TEST(GenerationConfig, MayNameAnySamplerWithoutCanvases) {
  const TemporaryDirectory directory;
  directory.write("generation_config.json", R"({"sampler_config": {"_cls_name": "Other"}, "t_min": 2})");
  EXPECT_EQ(load_generation_config(directory.path()).generation.canvas, CanvasDefaults{});
}

TEST(GenerationConfig, SaysHowCanvasesBecomeText) {
  EXPECT_EQ(load("{}").generation.canvas, CanvasDefaults{});
  const GenerationConfig config = load(R"({"max_denoising_steps": 12, "t_min": 0.25, "t_max": 0.5,
      "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 2.5},
      "stability_threshold": 0, "confidence_threshold": 0.125, "max_new_tokens": 256})");
  EXPECT_EQ(config.generation.canvas, (CanvasDefaults{.max_denoising_steps = 12,
                                                      .t_min = 0.25F,
                                                      .t_max = 0.5F,
                                                      .entropy_bound = 2.5F,
                                                      .stability_threshold = 0,
                                                      .confidence_threshold = 0.125F}));
  EXPECT_FALSE(config.says_if_it_draws);
  EXPECT_TRUE(load(R"({"do_sample": false})").says_if_it_draws);
}

TEST(GenerationConfig, RefusesSettingsOfCanvasesThatCannotBe) {
  const auto expect = [](const std::string& text, const std::string& part) {
    const std::string error = refusal_of<ConfigError>(text);
    EXPECT_CONTAINS(error, part);
  };
  expect(R"({"max_denoising_steps": 0})",
         "max_denoising_steps must be a whole number from 1 to 1048576, found 0");
  expect(R"({"stability_threshold": -1})",
         "stability_threshold must be a whole number from 0 to 1048576, found -1");
  expect(R"({"max_denoising_steps": 1e9})", "found 1000000000");
  expect(R"({"sampler_config": {"entropy_bound": 0.5, "margin": 1}})", "sampler_config has margin");
  expect(R"({"t_min": 0.9})", "expected t_min >= 0 and a greater t_max, found 0.9 and 0.8");
  expect(R"({"t_min": -0.1})", "t_min >= 0");
  expect(R"({"confidence_threshold": 0})", "confidence_threshold");
  expect(R"({"sampler_config": {"entropy_bound": -1.0}})", "entropy_bound above 0");
  expect(R"({"sampler_config": {"_cls_name": "OtherSamplerConfig"}})", "found \"OtherSamplerConfig\"");
  for (const char* text : {R"({"sampler_config": 3})", R"({"sampler_config": {"entropy_bound": "high"}})",
                           R"({"t_max": []})", R"({"max_denoising_steps": 2.5})", R"({"t_max": 1e300})"})
    EXPECT_THROW(load(text), Error) << text;
}

std::string describe_config(const GenerationConfig& config) {
  const auto list = [](const auto& values) { return fmt::format("{};", fmt::join(values, ",")); };
  const SamplingParams& sampling = config.sampling;
  const GenerationDefaults& text = config.generation;
  std::string all = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", sampling.temperature, sampling.top_k, sampling.top_p,
      sampling.min_p, sampling.repetition_penalty, sampling.logit_bias.size(),
      text.decoder_start.value_or(-1), text.forced_first.value_or(-1), text.forced_last.value_or(-1),
      text.no_repeat_ngram, text.min_new_tokens, text.min_length, text.max_new_tokens, text.max_length,
      text.beams.length_penalty, static_cast<int>(text.beams.stop));
  all += list(config.eos_token_ids) + list(text.suppressed) + list(text.suppressed_first) + list(text.stop);
  for (const auto& word : text.bad_words) all += list(word);
  return all;
}

// Every field of GenerationConfig in transformers 4.30 to 5.13, with a value other than its default.
// `do_sample` is true, so fields of sampling have an effect.
TEST(GenerationConfig, UsesEveryFieldOfTransformersOrReportsItOnceByName) {
  enum class Found { honoured, said, nothing };
  using enum Found;
  struct Case {
    const char* field;
    const char* value;
    Found found;
  };
  // bos_token_id has an effect with force_bos_token_to_be_generated, and do_sample in the other tests.
  const Case cases[] = {{"max_length", "100", honoured},
                        {"max_new_tokens", "100", honoured},
                        {"min_length", "10", honoured},
                        {"min_new_tokens", "10", honoured},
                        {"early_stopping", "true", honoured},
                        {"max_time", "1.5", said},
                        {"stop_strings", R"(["a", "b"])", honoured},
                        {"do_sample", "false", honoured},
                        {"num_beams", "4", said},
                        {"num_beam_groups", "2", said},
                        {"penalty_alpha", "0.6", said},
                        {"dola_layers", "\"high\"", said},
                        {"use_cache", "false", nothing},
                        {"cache_implementation", "\"static\"", nothing},
                        {"cache_config", "{\"a\": 1}", nothing},
                        {"max_cache_len", "100", nothing},
                        {"use_mtp", "true", nothing},
                        {"temperature", "0.5", honoured},
                        {"top_k", "7", honoured},
                        {"top_p", "0.5", honoured},
                        {"min_p", "0.5", honoured},
                        {"top_h", "0.5", said},
                        {"typical_p", "0.5", said},
                        {"epsilon_cutoff", "0.001", said},
                        {"eta_cutoff", "0.001", said},
                        {"diversity_penalty", "0.5", said},
                        {"repetition_penalty", "1.5", honoured},
                        {"encoder_repetition_penalty", "1.5", said},
                        {"length_penalty", "2.0", honoured},
                        {"no_repeat_ngram_size", "3", honoured},
                        {"bad_words_ids", "[[5], [6, 7]]", honoured},
                        {"force_words_ids", "[[5]]", said},
                        {"constraints", "[1]", said},
                        {"renormalize_logits", "true", nothing},
                        {"forced_bos_token_id", "5", honoured},
                        {"forced_eos_token_id", "[5, 6]", honoured},
                        {"forced_decoder_ids", "[[1, 5]]", said},
                        {"remove_invalid_values", "true", nothing},
                        {"exponential_decay_length_penalty", "[5, 1.5]", said},
                        {"suppress_tokens", "[5, 6]", honoured},
                        {"begin_suppress_tokens", "[5, 6]", honoured},
                        {"sequence_bias", "[[[5], 1.0]]", honoured},
                        {"token_healing", "true", said},
                        {"guidance_scale", "1.5", said},
                        {"watermarking_config", "{\"bias\": 2}", said},
                        {"low_memory", "true", nothing},
                        {"num_return_sequences", "2", said},
                        {"output_attentions", "true", nothing},
                        {"output_hidden_states", "true", nothing},
                        {"output_scores", "true", nothing},
                        {"output_logits", "true", nothing},
                        {"return_dict_in_generate", "true", nothing},
                        {"pad_token_id", "5", nothing},
                        {"bos_token_id", "5", nothing},
                        {"eos_token_id", "[5, 6]", honoured},
                        {"encoder_no_repeat_ngram_size", "3", said},
                        {"decoder_start_token_id", "5", honoured},
                        {"is_assistant", "true", nothing},
                        {"num_assistant_tokens", "5", nothing},
                        {"num_assistant_tokens_schedule", "\"constant\"", nothing},
                        {"assistant_confidence_threshold", "0.5", nothing},
                        {"prompt_lookup_num_tokens", "5", nothing},
                        {"max_matching_ngram_size", "5", nothing},
                        {"assistant_early_exit", "5", nothing},
                        {"assistant_lookbehind", "5", nothing},
                        {"assistant_ensemble_weight", "0.5", nothing},
                        {"target_lookbehind", "5", nothing},
                        {"speculation_type", "\"a\"", nothing},
                        {"compile_config", "{\"a\": 1}", nothing},
                        {"disable_compile", "true", nothing},
                        {"continuous_batching_config", "{\"a\": 1}", nothing},
                        {"prefill_chunk_size", "5", nothing},
                        {"transformers_version", "\"5.0\"", nothing}};
  const std::string base = describe_config(load(R"({"do_sample": true})"));
  std::vector<std::string> fields;
  for (const auto& [field, value, found] : cases) {
    const bool is_given = std::string_view(field) == "do_sample";
    const std::string text =
        is_given ? "{\"do_sample\": false}" : fmt::format(R"({{"do_sample": true, "{}": {}}})", field, value);
    const GenerationConfig config = load(text);
    EXPECT_EQ(describe_config(config) != base, found == honoured) << field;
    EXPECT_EQ(config.notice.empty(), found != said) << field;
    const std::string expected = found == said ? fmt::format("generation_config.json: {}", field) : "";
    EXPECT_CONTAINS(config.notice, expected);
    EXPECT_EQ(load(fmt::format(R"({{"{}": null}})", field)).notice, "");
    if (found == said) fields.emplace_back(field);
  }
  std::vector<std::string> unsupported;
  for (const UnsupportedField& rule : unsupported_fields()) unsupported.emplace_back(rule.name);
  std::ranges::sort(fields);
  EXPECT_EQ(fields, unsupported) << "every unsupported field is tried above, and they are in this order";
}

TEST(GenerationConfig, IgnoresNeutralValuesSilently) {
  EXPECT_EQ(load(R"({"typical_p": 0.5, "eta_cutoff": 0.1, "top_h": 0.4})").notice,
            "");  // these affect only sampling
  const GenerationConfig config =
      load(R"({"do_sample": true, "typical_p": 1.0, "eta_cutoff": 0.0, "num_beams": 1, "num_beam_groups": 1,
           "guidance_scale": 1.0, "token_healing": false, "diversity_penalty": 0.0, "penalty_alpha": 0,
           "encoder_repetition_penalty": 1, "force_words_ids": [], "num_return_sequences": 1, "made_up": 3})");
  EXPECT_EQ(config.notice, "");
}

TEST(GenerationConfig, TakesNumbersThatLimitNothing) {
  const GenerationConfig config =
      load(R"({"max_length": 1e12, "max_new_tokens": 4294967296, "do_sample": true, "top_k": 1e10,
           "eos_token_id": [2, 4294967295], "forced_eos_token_id": 4294967295})");
  constexpr auto kMax = std::numeric_limits<int>::max();
  EXPECT_EQ(config.generation.max_length, static_cast<std::size_t>(kMax));
  EXPECT_EQ(config.generation.max_new_tokens, static_cast<std::size_t>(kMax));
  EXPECT_EQ(config.sampling.top_k, kMax);
  EXPECT_EQ(config.eos_token_ids, (std::vector<TokenId>{2, kMax})) << "the engine says that it is unknown";
  EXPECT_EQ(config.generation.forced_last, kMax);
}

TEST(GenerationConfig, RefusesValuesThatCannotWork) {
  const std::string advice = "; the file may be damaged: get it again from where the model comes from";
  EXPECT_EQ(refusal_of<CheckpointError>(R"({"do_sample": true, "temperature": "hot"})"),
            "cannot use temperature: found the string 'hot', expected a number" + advice);
  EXPECT_EQ(refusal_of<ConfigError>(R"({"do_sample": true, "top_p": 1.5})"),
            "cannot sample: `top_p` is 1.5, expected a number in (0, 1]; use 1 to keep all tokens");
  EXPECT_EQ(refusal_of<CheckpointError>(R"({"do_sample": 1})"),
            "cannot use do_sample: found 1, expected true or false" + advice);
  EXPECT_EQ(refusal_of<CheckpointError>(R"({"do_sample": true, "top_k": 2.5})"),
            "cannot use top_k: found 2.5, expected a whole number" + advice);
  EXPECT_EQ(refusal_of<ConfigError>(R"({"repetition_penalty": 0})"),
            "cannot sample: `repetition_penalty` is 0, expected a finite number > 0; use 1 for no penalty");
  EXPECT_EQ(
      refusal_of<CheckpointError>(R"({"eos_token_id": "two"})"),
      "cannot use eos_token_id: found the string 'two', expected a token id or a list of token ids" + advice);
}

}  // namespace
}  // namespace tp
