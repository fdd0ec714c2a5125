// tp-infer generate: one prompt or several, as text and as JSON.

#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

Arguments generate(const std::string& model, const Arguments& more) {
  Arguments arguments = {"generate", "--model", model};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Generate, GreedyTextIsTheSameOnSeveralRanks) {
  const TextModel model;
  const Arguments arguments =
      generate(model.path(), {"--prompt", "The cat sat", "--greedy", "--max-tokens", "40", "--ignore-eos"});
  const Finished alone = run(kNoMpirun, arguments);
  expect_success(alone);
  EXPECT_TRUE(alone.out.starts_with("The cat sat")) << alone.out;
  EXPECT_GT(alone.out.size(), 40U);
  for (const std::size_t ranks : {2, 3}) {
    const Finished finished = run(ranks, arguments);
    expect_success(finished);
    EXPECT_EQ(finished.out, alone.out) << ranks << " ranks";
  }
}

TEST(Generate, SeededTextIsTheSameOnSeveralRanksAndDiffersBetweenSeeds) {
  const TextModel model;
  const auto with_seed = [&](const std::string& seed) {
    return generate(model.path(), {"--prompt", "Hello", "--temperature", "0.9", "--seed", seed, "--n", "2",
                                   "--max-tokens", "20", "--ignore-eos"});
  };
  const Finished alone = run(kNoMpirun, with_seed("7"));
  expect_success(alone);
  for (const std::size_t ranks : {2, 3}) EXPECT_EQ(run(ranks, with_seed("7")).out, alone.out) << ranks;
  EXPECT_NE(run(kNoMpirun, with_seed("8")).out, alone.out);
}

TEST(Generate, TokensAreContinuedAsByTheModelsOwnCode) {
  for (const char* name : {"llama-gqa", "llama-headdim-bias"}) {
    const reference::Fixture fixture = reference::fixture(name);
    const std::string prompt = (fixture.folder / "prompt.json").string();
    for (const std::size_t ranks : {2, 3}) {
      const Finished finished = run(ranks, generate(fixture.folder, {"--tokens", prompt, "--greedy", "--json",
                                                                     "--ignore-eos", "--max-tokens", "16"}));
      expect_success(finished);
      const json line = json_lines(finished.out).at(0);
      EXPECT_EQ(line.at("token_ids").get<std::vector<TokenId>>(), fixture.greedy) << name << ", " << ranks;
      EXPECT_TRUE(line.at("text").is_null()) << "there is no tokenizer";
    }
  }
}

// One prompt with --tokens, and as a line of a batch, for a model with a generation_config.json.
class GenerationConfigOf {
 public:
  explicit GenerationConfigOf(const json& config) : model_(copies_.copy("llama-gqa", "model")) {
    std::ofstream(model_ / "generation_config.json") << config.dump();
  }

  std::vector<TokenId> tokens(const Arguments& more = {}, const json& settings = json::object()) {
    Arguments by_file = {"--tokens", (model_ / "prompt.json").string(), "--json"};
    by_file.insert(by_file.end(), more.begin(), more.end());
    Arguments by_batch = {"--batch", "-"};
    by_batch.insert(by_batch.end(), more.begin(), more.end());
    json line = {{"ids", prompt()}};
    line.update(settings);
    const Finished batch = run(2, generate(model_, by_batch), {.input = line.dump()});
    expect_success(batch);
    const std::vector<TokenId> found = json_lines(batch.out).at(0).at("token_ids");
    if (settings.empty()) {
      const Finished finished = run(kNoMpirun, generate(model_, by_file));
      expect_success(finished);
      EXPECT_EQ(json_lines(finished.out).at(0).at("token_ids").get<std::vector<TokenId>>(), found);
    }
    return found;
  }
  std::vector<TokenId> prompt() const {
    return read_json(model_ / "prompt.json").at("ids").get<std::vector<TokenId>>();
  }
  std::filesystem::path model() const { return model_; }

 private:
  CheckpointCopies copies_;
  std::filesystem::path model_;
};

TEST(Generate, HasTheGenerationConfigsLengthByDefault) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const auto first = [&](std::size_t tokens) {
    return std::vector<TokenId>(fixture.greedy.begin(), fixture.greedy.begin() + static_cast<int>(tokens));
  };
  TokenId unchosen = 0;
  while (std::ranges::find(fixture.greedy, unchosen) != fixture.greedy.end()) ++unchosen;
  GenerationConfigOf model(json{{"max_new_tokens", 5}, {"eos_token_id", unchosen}});
  EXPECT_EQ(model.tokens(), first(5));
  EXPECT_EQ(model.tokens({"--max-tokens", "7"}), first(7));
  EXPECT_EQ(model.tokens({}, {{"max_tokens", 3}}), first(3));
  EXPECT_EQ(GenerationConfigOf(json{{"max_length", model.prompt().size() + 4}}).tokens({"--ignore-eos"}),
            first(4));
  GenerationConfigOf longer(
      json{{"max_new_tokens", 9}, {"min_new_tokens", 6}, {"eos_token_id", fixture.greedy[2]}});
  EXPECT_GE(longer.tokens().size(), 6U);
  EXPECT_EQ(GenerationConfigOf(json{{"eos_token_id", fixture.greedy[2]}}).tokens().size(), 3U);
}

TEST(Generate, ChoosesNoTokenThatTheGenerationConfigRulesOut) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const auto contains = [](const std::vector<TokenId>& ids, TokenId id) {
    return std::ranges::find(ids, id) != ids.end();
  };
  const Arguments sixteen = {"--ignore-eos", "--max-tokens", "16"};
  EXPECT_FALSE(
      contains(GenerationConfigOf(json{{"suppress_tokens", {fixture.greedy[2], 1 << 20}}}).tokens(sixteen),
               fixture.greedy[2]));
  EXPECT_NE(GenerationConfigOf(json{{"begin_suppress_tokens", {fixture.greedy[0]}}}).tokens(sixteen).front(),
            fixture.greedy[0]);
  GenerationConfigOf once(json{{"no_repeat_ngram_size", 1}});
  std::vector<TokenId> all = once.prompt();
  for (const TokenId id : once.tokens(sixteen)) {
    EXPECT_FALSE(contains(all, id)) << id;
    all.push_back(id);
  }
}

TEST(Generate, ReportsIgnoredGenerationSettingsOnce) {
  const GenerationConfigOf model(json{{"do_sample", true}, {"typical_p", 0.5}, {"top_k", -1}});
  const Finished finished = run(
      2,
      generate(model.model(), {"--tokens", (model.model() / "prompt.json").string(), "--max-tokens", "2"}));
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(lines_of(finished.err).size(), 1U) << finished.err;
  EXPECT_CONTAINS(finished.err, "generation_config.json: typical_p is not supported");
}

TEST(Generate, WithoutATokenizerTheTextIsAListOfIds) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const Finished finished =
      run(2, generate(fixture.folder, {"--tokens", (fixture.folder / "prompt.json").string(), "--greedy",
                                       "--max-tokens", "4", "--ignore-eos"}));
  expect_success(finished);
  EXPECT_EQ(json::parse(finished.out).get<std::vector<TokenId>>(),
            std::vector<TokenId>(fixture.greedy.begin(), fixture.greedy.begin() + 4));
}

TEST(Generate, JsonContainsTheText) {
  const TextModel model;
  const Arguments arguments = {"--prompt", "Hi", "--greedy", "--max-tokens", "12", "--ignore-eos"};
  const std::string text = run(kNoMpirun, generate(model.path(), arguments)).out;
  Arguments with_json = arguments;
  with_json.insert(with_json.end(), {"--json", "--logprobs", "3"});
  const Finished finished = run(2, generate(model.path(), with_json));
  expect_success(finished);
  const std::vector<json> lines = json_lines(finished.out);
  ASSERT_EQ(lines.size(), 1U);
  const json& line = lines.front();
  EXPECT_EQ("Hi" + line.at("text").get<std::string>() + "\n", text);
  EXPECT_EQ(line.at("index"), 0);
  EXPECT_EQ(line.at("sample"), 0);
  EXPECT_EQ(line.at("finish_reason"), "length");
  EXPECT_EQ(line.at("token_ids").size(), 12U);
  EXPECT_EQ(line.at("timings").at("generated_tokens"), 12);
  EXPECT_GT(line.at("timings").at("prompt_tokens"), 1);
  EXPECT_GT(line.at("timings").at("decode_tokens_per_s"), 0.0);
  EXPECT_EQ(line.at("timings").at("cache_n"), 0);
  EXPECT_FALSE(line.at("timings").contains("kv_store_n"));
  for (std::size_t i = 0; i < 12; ++i) {
    const json& entry = line.at("logprobs").at(i);
    EXPECT_EQ(entry.at("id"), line.at("token_ids").at(i));
    EXPECT_EQ(entry.at("top").size(), 3U);
    EXPECT_EQ(entry.at("top").at(0).at("id"), entry.at("id")) << "greedy takes the most likely";
    EXPECT_LE(entry.at("logprob"), 0.0);
  }
}

// In the batch, the second prompt finds the first one in memory. The second run finds both on disk.
TEST(Generate, SaysWhichPromptTokensCameFromTheCacheAndTheStore) {
  // Blocks of 32 tokens are shared: the first block of 41 tokens.
  const TextModel model;
  const TemporaryDirectory folder;
  const std::string ids = json(std::vector<int>(41, 7)).dump();
  const std::string line = R"({"ids": )" + ids + R"(, "max_tokens": 4, "ignore_eos": true, "n": 2})";
  const Arguments arguments = {"--batch",    folder.write("batch", line + "\n" + line + "\n"),
                               "--kv-store", folder.path() / "store",
                               "--verbose",  "--kv-store-min",
                               "8",          "--max-sequences",
                               "1",          "--greedy"};
  const auto run_once = [&] {
    const Finished finished = run(2, generate(model.path(), arguments));
    EXPECT_EQ(finished.status, 0) << finished.err;
    return finished;
  };
  const auto timings = [](const Finished& finished, std::size_t answer) {
    return json_lines(finished.out).at(answer).at("timings");
  };
  const Finished first = run_once();
  EXPECT_EQ(timings(first, 0).at("cache_n"), 0);
  EXPECT_FALSE(timings(first, 0).contains("kv_store_n"));
  EXPECT_EQ(timings(first, 2).at("cache_n"), 32);
  EXPECT_CONTAINS(first.err, "82 prompt tokens, of which 32 came from the cache; 0 of them were read from");
  const Finished second = run_once();
  for (const std::size_t sample : {0U, 1U}) {
    EXPECT_EQ(timings(second, sample).at("cache_n"), 32);
    EXPECT_EQ(timings(second, sample).at("kv_store_n"), 32);
    EXPECT_GT(timings(second, sample).at("kv_store_ms"), 0.0);
  }
  EXPECT_EQ(timings(second, 2).at("cache_n"), 32);
  EXPECT_FALSE(timings(second, 2).contains("kv_store_n")) << "it was in memory";
  EXPECT_CONTAINS(second.err,
                  "82 prompt tokens, of which 64 came from the cache; 32 of them were read from the store");
}

TEST(Generate, NoEchoLeavesThePromptOut) {
  const TextModel model;
  const Arguments arguments =
      generate(model.path(), {"--prompt", "Hi", "--greedy", "--max-tokens", "12", "--ignore-eos"});
  Arguments bare = arguments;
  bare.push_back("--no-echo");
  EXPECT_EQ("Hi" + run(kNoMpirun, bare).out, run(kNoMpirun, arguments).out);
}

TEST(Generate, AStopTextEndsTheContinuationBeforeIt) {
  const TextModel model;
  const Arguments arguments = {"--prompt", "Hi", "--greedy", "--max-tokens", "30", "--ignore-eos", "--json"};
  const std::string text =
      json_lines(run(kNoMpirun, generate(model.path(), arguments)).out).at(0).at("text").get<std::string>();
  // The stop text consists of ASCII letters from the middle of the text.
  std::size_t begin = text.size() / 2;
  while (begin + 3 < text.size() && !(std::isalpha(static_cast<unsigned char>(text[begin])) != 0 &&
                                      std::isalpha(static_cast<unsigned char>(text[begin + 1])) != 0)) {
    ++begin;
  }
  const std::string stop = text.substr(begin, 2);
  Arguments stopping = arguments;
  stopping.insert(stopping.end(), {"--stop", stop});
  const json line = json_lines(run(2, generate(model.path(), stopping)).out).at(0);
  EXPECT_EQ(line.at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(line.at("finish_reason"), "stop");
}

TEST(Generate, ReadsAPromptFromStandardInput) {
  const TextModel model;
  const Arguments more = {"--greedy", "--max-tokens", "5", "--ignore-eos"};
  Arguments flag = generate(model.path(), more);
  flag.insert(flag.end(), {"--prompt", "One\ntwo"});
  const std::string expected = run(kNoMpirun, flag).out;
  for (const std::size_t ranks : {std::size_t{kNoMpirun}, std::size_t{3}}) {
    Arguments file = generate(model.path(), more);
    file.insert(file.end(), {"--prompt-file", "-"});
    const Finished finished = run(ranks, file, {.input = "One\ntwo"});
    expect_success(finished);
    EXPECT_EQ(finished.out, expected);
  }
}

TEST(Generate, ContinuesPipedTextWithoutAPrompt) {
  const TextModel model;
  const Arguments flags = generate(model.path(), {"--greedy", "--max-tokens", "5", "--ignore-eos"});
  Arguments with_prompt = flags;
  with_prompt.insert(with_prompt.end(), {"--prompt", "One\ntwo"});
  const std::string expected = run(kNoMpirun, with_prompt).out;
  for (const std::size_t ranks : {std::size_t{kNoMpirun}, std::size_t{3}}) {
    const Finished finished = run(ranks, flags, {.input = "One\ntwo\n"});
    expect_success(finished);
    EXPECT_EQ(finished.out, expected);
  }
}

TEST(Generate, WithoutAPromptAndWithAnEmptyPipeThereIsNothingToContinue) {
  const TextModel model;
  run_at_once({kNoMpirun, 3}, generate(model.path(), {}), [](const Finished& finished) {
    expect_one_error(finished, 2, "tp-infer generate: nothing to continue; give --prompt TEXT");
  });
}

// Under mpirun, the program reads a script's pipe completely, and nothing from mpirun's terminal.
TEST(Generate, InAScriptUnderMpirunReadsThePipeOfTheScriptOnly) {
  const TextModel model;
  const auto run_script = [&](const std::string& script) {
    std::vector<std::string> command = {TP_MPIRUN_PROGRAM, "-np", "1", "bash", "-c", script};
    const auto line = command_line(kNoMpirun, generate(model.path(), {"--greedy", "--max-tokens", "2"}));
    command.insert(command.end(), line.begin(), line.end());
    return Process(command, {.keep_input_open = true, .on_terminal = true}).finish();
  };
  EXPECT_CONTAINS(run_script("\"$0\" \"$@\"; true").out, "nothing to continue; give --prompt TEXT");
  EXPECT_CONTAINS(run_script("echo Hello | \"$0\" \"$@\"").out, "Hello");
}

TEST(Generate, ReportsAFullContext) {
  const TextModel model;
  const auto generate_within = [&](const char* length) {
    return run(2, {"generate", "--model", model.path(), "--prompt", "Hi", "--greedy", "--ignore-eos",
                   "--max-tokens", "12", "--max-length", length});
  };
  EXPECT_CONTAINS(generate_within("8").err, "because the context of 8 is full\n");
  expect_success(generate_within("100"));
  EXPECT_CONTAINS(generate_within("100000").err,
                  "tokens, the model's maximum, not the 100000 of --max-length\n");
}

TEST(Generate, SaysThatItWaitsForAPipe) {
  const TextModel model;
  Process process(command_line(kNoMpirun, generate(model.path(), {"--greedy", "--max-tokens", "2"})),
                  {.keep_input_open = true});
  EXPECT_TRUE(process.wait_for_error([](const std::string& err) { return err.ends_with('\n'); }));
  process.write_input("Hello");
  process.close_input();
  const Finished finished = process.finish();
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(finished.err, "tp-infer: waiting for a prompt on standard input; or give --prompt TEXT\n");
  EXPECT_TRUE(finished.out.starts_with("Hello")) << finished.out;
}

TEST(Generate, JsonNamesTheSettingsThatReproduceAText) {
  const TextModel model;
  const Arguments first = {"--prompt", "The cat",       "--json", "--n",     "2",    "--max-tokens",
                           "12",       "--temperature", "1.3",    "--top-p", "0.95", "--presence-penalty",
                           "0.1"};
  const Finished drawn = run(kNoMpirun, generate(model.path(), first));
  expect_success(drawn);
  const std::vector<json> lines = json_lines(drawn.out);
  ASSERT_EQ(lines.size(), 2U);
  const json& sampling = lines[0].at("sampling");
  EXPECT_EQ(sampling.at("temperature").dump(), "1.3") << "not the digits of the nearest float";
  EXPECT_LE(sampling.at("seed"), std::uint64_t{1} << 53) << "a reader of JSON may have doubles only";

  json request = sampling;
  request["prompt"] = "The cat";
  const Finished batch = run(kNoMpirun, generate(model.path(), {"--batch", "-"}), {.input = request.dump()});
  Arguments flags = first;
  flags.insert(flags.end(), {"--seed", sampling.at("seed").dump()});
  for (const Finished& again : {batch, run(2, generate(model.path(), flags))}) {
    expect_success(again);
    const std::vector<json> repeated = json_lines(again.out);
    ASSERT_EQ(repeated.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(repeated[i].at("token_ids"), lines[i].at("token_ids"));
      EXPECT_EQ(repeated[i].at("sampling"), sampling);
    }
  }
  const json other = json_lines(run(kNoMpirun, generate(model.path(), first)).out).at(0);
  EXPECT_NE(other.at("sampling").at("seed"), sampling.at("seed"));
}

TEST(Generate, SeveralPromptsAreAnsweredInTheirOrder) {
  const TextModel model;
  const auto answer = [&](const Arguments& prompts) {
    Arguments arguments = generate(model.path(), {"--greedy", "--max-tokens", "5", "--ignore-eos"});
    arguments.insert(arguments.end(), prompts.begin(), prompts.end());
    return run(kNoMpirun, arguments).out;
  };
  EXPECT_EQ(answer({"--prompt", "One", "--prompt", "Two"}),
            "--- prompt 1 ---\n" + answer({"--prompt", "One"}) + "\n--- prompt 2 ---\n" +
                answer({"--prompt", "Two"}));
}

TEST(Generate, APromptThatCannotBeServedDoesNotStopTheOther) {
  const TextModel model;
  std::string long_prompt;
  for (int i = 0; i < 5000; ++i) long_prompt += "word ";
  const Finished finished = run(2, generate(model.path(), {"--prompt", long_prompt, "--prompt", "Two",
                                                           "--greedy", "--max-tokens", "5"}));
  EXPECT_EQ(finished.status, 1);
  EXPECT_TRUE(finished.out.starts_with("--- prompt 2 ---\nTwo")) << finished.out;
  const std::string ours = without_mpi_noise(finished.err);
  EXPECT_TRUE(ours.starts_with("tp-infer: prompt 1: prompt has ")) << ours;
  EXPECT_CONTAINS(ours, "but a sequence has at most 4096");
  EXPECT_CONTAINS(ours, "shorten the prompt");
}

TEST(Generate, JsonIsValidForAnyPromptBytes) {
  const TextModel model;
  const std::string prompt = "caf\xff\xc3 \"quoted\"\n\t\x01";
  const Finished finished = run(2, generate(model.path(), {"--prompt", prompt, "--greedy", "--json",
                                                           "--max-tokens", "30", "--ignore-eos"}));
  expect_success(finished);
  EXPECT_EQ(json_lines(finished.out).size(), 1U);
}

TEST(Generate, TextStreamsTokenByTokenThroughMpirun) {
  const TextModel model;
  Process process(command_line(
      2, generate(model.path(), {"--prompt", "Hi", "--greedy", "--ignore-eos", "--max-tokens", "1500"})));
  ASSERT_TRUE(process.wait_for_output([](const std::string& out) { return out.size() > 2; }));
  EXPECT_NE(process.rank(0), -1) << "something comes out while the program runs";
  expect_success(process.finish());
  EXPECT_GT(process.reads(), 50U);
}

TEST(Generate, EndsIfItsReaderLeavesEarly) {
  const TextModel model;
  for (const std::size_t ranks : {std::size_t{kNoMpirun}, std::size_t{2}}) {
    std::vector<std::string> command = {"sh", "-c", "\"$0\" \"$@\" | head -c 5"};
    const auto line = command_line(
        ranks, generate(model.path(), {"--prompt", "Hello", "--ignore-eos", "--max-tokens", "1000"}));
    command.insert(command.end(), line.begin(), line.end());
    EXPECT_EQ(Process(command).finish().out, "Hello");
  }
}

TEST(Generate, AFullDiskIsOneError) {
  const TextModel model;
  std::vector<std::string> command = {"sh", "-c", "exec \"$0\" \"$@\" > /dev/full"};
  const auto line = command_line(kNoMpirun, generate(model.path(), {"--prompt", "Hello"}));
  command.insert(command.end(), line.begin(), line.end());
  expect_one_error(Process(command).finish(), 1, "cannot write to standard output");
}

TEST(Generate, VerboseSaysThatAllRanksTogetherReadTheCheckpointOnce) {
  const TextModel model;
  const Finished finished = run(2, generate(model.path(), {"--prompt", "Hi", "--max-tokens", "2", "-v"}));
  EXPECT_EQ(finished.status, 0);
  const std::string before = "of which all ranks together used ";
  const std::size_t found = finished.err.find(before);
  ASSERT_NE(found, std::string::npos) << finished.err;
  const double ratio = std::stod(finished.err.substr(found + before.size()));
  EXPECT_GE(ratio, 0.999);
  EXPECT_LE(ratio, 1.05);
}

}  // namespace
}  // namespace tp::test
