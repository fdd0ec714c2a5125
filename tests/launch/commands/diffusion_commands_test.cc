// tp-infer generate, logits and inspect with diffusion language models.
#include "tests/doc_example.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/text_diffusion.h"
#include "tests/reference/diffusion_fixture.h"
#include "tests/reference/npy_array.h"
#include "tests/serve/served_program.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;
using reference::DiffusionCase;
using reference::DiffusionFixture;

std::string prompt_of(const DiffusionFixture& fixture) { return (fixture.folder / "prompt.json").string(); }

Arguments generation_of(const DiffusionFixture& fixture, const DiffusionCase& one) {
  Arguments arguments = {"generate",         "--model",
                         fixture.folder,     "--tokens",
                         prompt_of(fixture), "--json",
                         "--greedy",         "--ignore-eos",
                         "--max-tokens",     std::to_string(one.max_tokens),
                         "--unmask",         std::string(name_of(*one.settings.rule))};
  const auto add = [&](const char* name, int value) {
    if (value != 0) arguments.insert(arguments.end(), {name, std::to_string(value)});
  };
  add("--steps", one.settings.steps);
  add("--block-length", one.settings.block_length);
  if (one.settings.rule == UnmaskRule::threshold)
    arguments.insert(arguments.end(), {"--threshold", std::to_string(*one.settings.threshold)});
  if (one.settings.cache)
    arguments.insert(arguments.end(), {"--unmask-cache", std::string(name_of(*one.settings.cache))});
  return arguments;
}

// Expects success, with a notice if results are approximate.
void expect_success_of(const Arguments& arguments, Finished finished) {
  if (const auto found = std::ranges::find(arguments, "--unmask-cache"); found != arguments.end()) {
    EXPECT_EQ(finished.err, "tp-infer: passes are approximated (--unmask-cache " + *std::next(found) +
                                "): texts differ from the model's\n");
    finished.err.clear();
  }
  expect_success(finished);
}

TEST(Diffusion, MatchesTheFamiliesOwnCodeOnSeveralRanks) {
  for (const DiffusionFixture& fixture : reference::diffusion_fixtures()) {
    const std::size_t prompt = fixture.prompt.size();
    std::vector<DiffusionCase> cases = fixture.cases;
    cases.insert(cases.end(), fixture.cached_cases.begin(), fixture.cached_cases.end());
    for (const DiffusionCase& one : cases) {
      for (const std::size_t ranks : {0, 3}) {
        const Finished finished = run(ranks, generation_of(fixture, one));
        expect_success_of(generation_of(fixture, one), finished);
        const std::vector<json> lines = json_lines(finished.out);
        ASSERT_GE(lines.size(), 2U);
        std::vector<TokenId> text = fixture.prompt;
        text.resize(one.result.size(), -1);
        for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
          EXPECT_EQ(lines[i].at("pass"), i + 1);
          for (const json& token : lines[i].at("unmasked")) text.at(token.at("position")) = token.at("token");
        }
        EXPECT_EQ(text, one.result) << fixture.name << " " << one.algorithm << ", " << ranks << " ranks";
        const json& line = lines.back();
        EXPECT_EQ(line.at("passes"), lines.size() - 1);
        EXPECT_EQ(line.at("finish_reason"), "length");
        const auto first = one.result.begin() + static_cast<std::ptrdiff_t>(prompt);
        EXPECT_EQ(line.at("token_ids"), std::vector<TokenId>(first, first + one.max_tokens)) << one.algorithm;
      }
    }
  }
}

TEST(Diffusion, DrawsTheSameTextFromASeedOnSeveralRanks) {
  for (const DiffusionFixture& fixture : reference::diffusion_fixtures()) {
    std::vector<json> texts;
    for (const std::size_t ranks : {2, 3}) {
      const Finished finished =
          run(ranks,
              {"generate", "--model", fixture.folder, "--batch", "-", "--same-bits", "--seed", "5",
               "--temperature", "0.8", "--top-k", "50", "--top-p", "0.9", "--ignore-eos"},
              {.input = json{{"ids", fixture.prompt},
                             {"max_tokens", 12},
                             {"steps", 6},
                             {"block_length", 4},
                             {"unmask", "entropy"}}
                            .dump() +
                        "\n"});
      expect_success(finished);
      const std::vector<json> lines = json_lines(finished.out);
      ASSERT_EQ(lines.size(), 1U) << "a batch has a line per continuation";
      EXPECT_EQ(lines[0].at("sampling").at("unmask"), "entropy");
      texts.push_back(lines[0].at("token_ids"));
    }
    for (const json& text : texts) EXPECT_EQ(text, texts[0]) << fixture.name;
  }
}

TEST(Diffusion, DrawsTheSameTextFromApproximateCachesOnSeveralRanks) {
  for (const char* name : {"llada", "dream"}) {
    const DiffusionFixture fixture = reference::diffusion_fixture(name);
    const json line = {{"ids", fixture.prompt}, {"max_tokens", 12}, {"steps", 6}, {"block_length", 6}};
    std::string input;
    for (const char* cache : {"exact", "prefix", "dual"}) {
      json cached = line;
      cached["unmask_cache"] = cache;
      input += cached.dump() + "\n";
    }
    std::vector<std::vector<json>> texts;
    for (const std::size_t ranks : {2, 3}) {
      const Arguments arguments = {
          "generate",      "--model", fixture.folder, "--batch",        "-",   "--same-bits", "--seed", "5",
          "--temperature", "0.8",     "--ignore-eos", "--unmask-cache", "dual"};
      const Finished finished = run(ranks, arguments, {.input = input + line.dump() + "\n"});
      expect_success_of(arguments, finished);
      std::vector<json> lines = json_lines(finished.out);
      ASSERT_EQ(lines.size(), 4U);
      std::ranges::sort(lines, {}, [](const json& one) { return one.at("index").get<int>(); });
      EXPECT_EQ(lines[1].at("sampling").at("unmask_cache"), "prefix");
      EXPECT_EQ(lines[3].at("token_ids"), lines[2].at("token_ids")) << "what the command says is the default";
      texts.emplace_back();
      for (const json& one : lines) texts.back().push_back(one.at("token_ids"));
    }
    for (const std::vector<json>& same : texts) EXPECT_EQ(same, texts[0]) << name;
  }
}

TEST(Diffusion, WritesTextsAndUnmaskedTokens) {
  const TextDiffusion model("llada");
  const Arguments arguments = {"generate",   "--model",  model.path(),     "--prompt",
                               "fbepctgjit", "--greedy", "--max-tokens",   "8",
                               "--steps",    "4",        "--block-length", "4"};
  const Finished text = run(2, arguments);
  expect_success(text);
  EXPECT_EQ(text.out.size(), 10U + 16 + 1) << "the prompt, two letters for each token, and a newline";
  Arguments with_json = arguments;
  with_json.push_back("--json");
  const std::vector<json> lines = json_lines(run(2, with_json).out);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0].at("unmasked").size(), 2U);
  EXPECT_EQ(lines[0].at("unmasked")[0].at("text").get<std::string>().size(), 2U);
  EXPECT_EQ("fbepctgjit" + lines[4].at("text").get<std::string>() + "\n", text.out);
}

TEST(Diffusion, TheCommandsOfTheGuideRun) {
  const TextDiffusion model("llada");
  const std::vector<std::string> lines = doc_example_lines("model/README.md", "## Diffusion language models");
  for (const std::string& line : lines) {
    const std::string program = "tp-infer ";
    std::istringstream words(line.substr(line.find(program) + program.size()));
    Arguments arguments;
    for (std::string word; words >> std::quoted(word);)
      arguments.push_back(word == "DIR" ? model.path() : word == "Once upon a time" ? "oncelu" : word);
    expect_success_of(arguments, run(2, arguments));
  }
  EXPECT_EQ(lines.size(), 3U);
}

TEST(Diffusion, LogitsMatchTheOriginalCode) {
  const TemporaryDirectory directory;
  const std::string output = (directory.path() / "x.npy").string();
  for (const DiffusionFixture& fixture : reference::diffusion_fixtures()) {
    expect_success(run(2, {"logits", "--model", fixture.folder, "--tokens",
                           (fixture.folder / "masked.json").string(), "--output", output}));
    const NpyArray found = read_npy(output);
    EXPECT_LE(fixture.logits.difference(found.values), 1e-3) << fixture.name;
    expect_success(run(0, {"hidden", "--model", fixture.folder, "--tokens",
                           (fixture.folder / "masked.json").string(), "--output", output}));
    EXPECT_EQ(read_npy(output).shape, (std::vector<std::size_t>{fixture.masked.size(), 64}));
  }
}

TEST(Diffusion, InspectDescribesTheModel) {
  const auto inspected = [](const std::string& name) {
    const Finished finished =
        run(0, {"inspect", "--model", reference::diffusion_fixture(name).folder, "--ranks", "2"});
    expect_success(finished);
    return finished.out;
  };
  const std::string llada = inspected("llada");
  EXPECT_CONTAINS(llada, "kind                      diffusion language model");
  EXPECT_CONTAINS(llada, "mask_token_id             250");
  EXPECT_CONTAINS(llada, "attention                 bidirectional");
  EXPECT_CONTAINS(inspected("sdar"), "attention                 by blocks of 4 tokens");
}

TEST(Diffusion, UnsuitableOptionsNameTheSuitableOnes) {
  const DiffusionFixture llada = reference::diffusion_fixture("llada");
  const std::string decoder = fixture_folder("llama-gqa").string();
  const Arguments prompt = {"--tokens", prompt_of(llada), "--max-tokens", "16"};
  const auto generate = [&](const std::string& model, Arguments more) {
    more.insert(more.begin(), {"generate", "--model", model});
    more.insert(more.end(), prompt.begin(), prompt.end());
    return more;
  };
  expect_one_error(run(2, generate(decoder, {"--steps", "4"})), 1,
                   "cannot use --steps, --block-length, --unmask and --threshold with");
  expect_one_line(run(1, generate(llada.folder, {"--regex", "a+"})), 1,
                  "cannot unmask tokens with a constraint");
  expect_one_line(run(0, generate(llada.folder, {"--repetition-penalty", "1.2"})), 1,
                  "cannot unmask tokens with --repetition-penalty");
  expect_one_line(run(0, generate(llada.folder, {"--block-length", "5"})), 1,
                  "--block-length must divide --max-tokens evenly, found 5 and 16");
  expect_one_line(run(0, generate(llada.folder, {"--block-length", "8", "--steps", "5"})), 1,
                  "--steps must be a multiple of the 2 blocks");
  expect_one_line(run(0, generate(llada.folder, {"--steps", "0"})), 2, "expected a whole number from 1");
  expect_one_line(run(0, generate(llada.folder, {"--unmask", "lowconfidence"})), 2,
                  "did you mean low-confidence?");
  expect_one_line(run(0, generate(llada.folder, {"--threshold", "0.5"})), 2,
                  "--threshold is for --unmask threshold");
  expect_one_line(run(0, generate(llada.folder, {"--unmask", "threshold", "--threshold", "1.5"})), 2,
                  "--threshold is 1.5, expected a probability");
  expect_one_line(run(0, generate(llada.folder, {"--unmask-cache", "duel"})), 2, "did you mean dual?");
  expect_one_error(run(2, generate(decoder, {"--unmask-cache", "dual"})), 1,
                   "cannot approximate by --unmask-cache dual: expected a diffusion language model");
  expect_one_error(
      run(2, generate(reference::diffusion_fixture("sdar").folder, {"--unmask-cache", "prefix"})), 1,
      "found SDARForCausalLM, whose finished blocks stay in the cache, which is exact");
  expect_one_error(run(1, {"perplexity", "--model", llada.folder, "--tokens", prompt_of(llada)}), 1,
                   "use tp-infer generate, logits, hidden, embed");
}

TEST(Diffusion, AConfigWithAMaskOutsideTheVocabularyIsOneError) {
  for (const json& mask : {json(256), json(-1), json(4294967296), json("mask")}) {
    const TemporaryDirectory copy;
    for (const auto& entry : std::filesystem::directory_iterator(reference::diffusion_fixture("sdar").folder))
      std::filesystem::copy(entry.path(), copy.path() / entry.path().filename());
    change_config(copy.path(), {{"mask_token_id", mask}});
    expect_one_error(
        run(1, {"generate", "--model", copy.path(), "--tokens", (copy.path() / "prompt.json").string()}), 1,
        "mask_token_id");
  }
}

TEST(Diffusion, ABatchAnswersEveryRequestByItself) {
  const DiffusionFixture sdar = reference::diffusion_fixture("sdar");
  const std::string ids = json(sdar.prompt).dump();
  const Finished finished =
      run(2, {"generate", "--model", sdar.folder, "--batch", "-", "--greedy", "--ignore-eos"},
          {.input = R"({"id": 1, "max_tokens": 4, "ids": )" + ids + "}\n" +
                    R"({"id": 2, "max_tokens": 4, "unmask": "best", "ids": )" + ids + "}\n" +
                    R"({"id": 3, "max_tokens": 4, "steps": 0, "ids": )" + ids + "}\n" +
                    R"({"id": 4, "max_tokens": 8, "steps": 3, "ids": )" + ids + "}\n" +
                    R"({"id": 5, "max_tokens": 4, "unmask_cache": "dual", "ids": )" + ids + "}\n" +
                    R"({"id": 6, "max_tokens": 4, "unmask_cache": 2, "ids": )" + ids + "}\n"});
  EXPECT_EQ(finished.status, 1);
  std::map<int, json> lines;
  for (const json& line : json_lines(finished.out)) lines[line.at("id").get<int>()] = line;
  EXPECT_EQ(lines.at(1).at("token_ids").size(), 4U);
  const auto error = [&](int id) { return lines.at(id).at("error").get<std::string>(); };
  EXPECT_CONTAINS(error(2), "`unmask`: expected one of low-confidence, margin");
  EXPECT_CONTAINS(error(3), "`steps`");
  EXPECT_CONTAINS(error(4), "must be a multiple of the 2 blocks");
  EXPECT_CONTAINS(error(5), "dual: expected exact, because finished blocks of");
  EXPECT_CONTAINS(error(6), "`unmask_cache`: expected one of exact, prefix, dual");
}

TEST(Diffusion, AServerAnswersWithThem) {
  const TextDiffusion model("sdar");
  ServedProgram server(2, {"--model", model.path()});
  const json prompt = {
      {"prompt", "fbepctgjitab"}, {"max_tokens", 8}, {"temperature", 0.0}, {"ignore_eos", true}};
  json body = prompt;
  const HttpReply whole = server.post("/v1/completions", body);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const std::string text = whole.json().at("choices").at(0).at("text");
  EXPECT_EQ(text.size(), 16U);
  EXPECT_EQ(whole.json().at("usage").at("completion_tokens"), 8);
  body["stream"] = true;
  std::string streamed;
  for (const json& chunk : server.post("/v1/completions", body).chunks()) {
    if (!chunk.at("choices").empty()) streamed += chunk.at("choices").at(0).at("text").get<std::string>();
  }
  EXPECT_EQ(streamed, text);
  body = prompt;
  body.update({{"unmask", "threshold"}, {"threshold", 0.1}, {"block_length", 4}, {"steps", 4}});
  EXPECT_EQ(server.post("/v1/completions", body).status, 200);
  body["steps"] = 3;
  const HttpReply uneven = server.post("/v1/completions", body);
  EXPECT_EQ(uneven.status, 400);
  EXPECT_CONTAINS(uneven.body, "must be a multiple of the 2 blocks");
  body = prompt;
  body["unmask_cache"] = "prefix";
  const HttpReply approximate = server.post("/v1/completions", body);
  EXPECT_EQ(approximate.status, 400);
  EXPECT_CONTAINS(approximate.body, "prefix: expected exact");
  body = prompt;
  body["logprobs"] = 2;
  EXPECT_EQ(server.post("/v1/completions", body).status, 400);
  body = prompt;
  body["response_format"] = {{"type", "json_object"}};
  EXPECT_EQ(server.post("/v1/completions", body).status, 400);
  const HttpReply chat = server.post(
      "/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "fbep"}}}}, {"max_tokens", 4}});
  EXPECT_EQ(chat.status, 200) << chat.body;
  EXPECT_TRUE(server.is_idle());
  server.end();
}

}  // namespace
}  // namespace tp::test
