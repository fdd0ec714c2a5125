// tp-infer generate, serve and inspect with a canvas model.
#include "tests/doc_example.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/text_diffusion.h"
#include "tests/reference/seeded_weights.h"
#include "tests/serve/served_program.h"

#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

std::filesystem::path canvas_folder() { return reference::seeded_folder("diffusion", "diffusiongemma"); }

const std::string kNotice =
    "tp-infer: the checkpoint has tensors that the model does not use: model.encoder.embed_vision";

// Expects success with one message about the vision tower.
void expect_success_without_vision(const Finished& finished) {
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(finished.err.find(kNotice), 0U) << finished.err;
  EXPECT_EQ(lines_of(finished.err).size(), 1U) << finished.err;
}

// Expects a rejected request after this message.
void expect_refusal(const Finished& finished, const std::string& part) {
  EXPECT_EQ(finished.status, 1);
  const std::vector<std::string> lines = lines_of(finished.err);
  ASSERT_EQ(lines.size(), 2U) << finished.err;
  EXPECT_CONTAINS(lines[1], part);
}

// The commands' lengths suit a model with canvases of 256 tokens. The fixture's canvases have 8.
TEST(Canvases, TheCommandsOfTheGuideRun) {
  const TextDiffusion model("diffusiongemma");
  const std::vector<std::string> lines = doc_example_lines("model/README.md", "### Canvases");
  for (const std::string& line : lines) {
    const std::string program = "tp-infer ";
    std::istringstream words(line.substr(line.find(program) + program.size()));
    Arguments arguments;
    for (std::string word; words >> std::quoted(word);)
      arguments.push_back(word == "DIR"                ? model.path()
                          : word == "512"              ? "16"
                          : word == "Once upon a time" ? "oncelu"
                                                       : word);
    expect_success_without_vision(run(2, arguments));
  }
  EXPECT_EQ(lines.size(), 2U);
}

// From the second pass on, a pass computes rows of the text and of the canvas. Only the canvas rows read soft
// embeddings.
TEST(Canvases, MayHaveAnAdapterOfTheLayersOfTheirSoftEmbeddings) {
  const std::filesystem::path folder = canvas_folder();
  const std::string layer = "base_model.model.model.decoder.self_conditioning.gate_proj.lora_";
  const json a = {
      {"name", layer + "A.weight"}, {"shape", {2, 64}}, {"dtype", "F32"}, {"base", 0.0}, {"amplitude", 0.5}};
  const json b = {
      {"name", layer + "B.weight"}, {"shape", {80, 2}}, {"dtype", "F32"}, {"base", 0.0}, {"amplitude", 0.5}};
  const TemporaryDirectory adapter;
  adapter.write("adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 2})");
  reference::write_seeded_weights(
      adapter.write("weights.json",
                    json{{"format", "seeded-weights-1"}, {"salt", ""}, {"tensors", {a, b}}}.dump()),
      adapter.path() / "adapter_model.safetensors");
  for (const std::size_t ranks : {0, 2}) {
    const Finished finished =
        run(ranks, {"generate", "--model", folder, "--tokens", (folder / "prompt.json").string(), "--json",
                    "--same-bits", "--seed", "5", "--ignore-eos", "--max-tokens", "12", "--steps", "4",
                    "--lora", "tuned=" + adapter.path().string()});
    expect_success_without_vision(finished);
  }
}

TEST(Canvases, DrawTheSameTextFromASeedOnSeveralRanks) {
  const std::filesystem::path folder = canvas_folder();
  std::vector<json> passes;
  for (const std::size_t ranks : {0, 2, 3}) {
    const Finished finished =
        run(ranks, {"generate", "--model", folder, "--tokens", (folder / "prompt.json").string(), "--json",
                    "--same-bits", "--seed", "5", "--ignore-eos", "--max-tokens", "12", "--steps", "12"});
    expect_success_without_vision(finished);
    const std::vector<json> lines = json_lines(finished.out);
    ASSERT_EQ(lines.size(), 13U);
    EXPECT_EQ(lines.back().at("passes"), 12);
    EXPECT_EQ(lines.back().at("token_ids").size(), 12U);
    passes.push_back(lines.back().at("token_ids"));
    for (std::size_t i = 0; i < 12; ++i) passes.back().push_back(lines[i].at("unmasked"));
  }
  EXPECT_EQ(passes[1], passes[0]);
  EXPECT_EQ(passes[2], passes[0]);
}

TEST(Canvases, AServerAnswersWithThem) {
  const TextDiffusion model("diffusiongemma");
  ServedProgram server(2, {"--model", model.path(), "--same-bits"});
  const json prompt = {
      {"prompt", "fbepctgjitab"}, {"max_tokens", 12}, {"seed", 3}, {"ignore_eos", true}, {"steps", 8}};
  json body = prompt;
  const HttpReply whole = server.post("/v1/completions", body);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const std::string text = whole.json().at("choices").at(0).at("text");
  EXPECT_EQ(text.size(), 24U);
  body["stream"] = true;
  std::string streamed;
  for (const json& chunk : server.post("/v1/completions", body).chunks()) {
    if (!chunk.at("choices").empty()) streamed += chunk.at("choices").at(0).at("text").get<std::string>();
  }
  EXPECT_EQ(streamed, text);
  const json of_masks = {{"unmask", "margin"}, {"threshold", 0.5}};
  for (const auto& [field, value] : of_masks.items()) {
    body = prompt;
    body[field] = value;
    const HttpReply refused = server.post("/v1/completions", body);
    EXPECT_EQ(refused.status, 400);
    EXPECT_CONTAINS(refused.body, "this model has no masks");
  }
  const HttpReply chat =
      server.post("/v1/chat/completions",
                  {{"messages", {{{"role", "user"}, {"content", "fbep"}}}}, {"max_tokens", 4}, {"steps", 3}});
  EXPECT_EQ(chat.status, 200) << chat.body;
  EXPECT_TRUE(server.is_idle());
  server.end();
}

TEST(Canvases, AConfigWithAnImpossibleCanvasIsOneError) {
  for (const json& length : {json(0), json(-1), json(4294967296), json("long")}) {
    const TextDiffusion model("diffusiongemma");
    change_config(model.path(), {{"canvas_length", length}});
    expect_one_error(run(1, {"generate", "--model", model.path(), "--prompt", "ab"}), 1, "canvas_length");
  }
}

TEST(Canvases, UnsuitableOptionsNameTheSuitableOnes) {
  const auto generate = [](Arguments more) {
    more.insert(more.begin(), {"generate", "--model", canvas_folder(), "--tokens",
                               (canvas_folder() / "prompt.json").string(), "--max-tokens", "16"});
    return more;
  };
  expect_refusal(run(0, generate({"--unmask", "entropy"})),
                 "cannot unmask tokens with --unmask: this model has no masks");
  expect_refusal(run(0, generate({"--block-length", "16"})), "expected at most the model's 8");
  expect_one_error(run(2, generate({"--pipeline", "2"})), 1,
                   "into 2 pipeline stages: its first layer reads what the last layer has predicted");
  expect_one_error(run(0, generate({"--unmask-cache", "dual"})), 1,
                   "cannot approximate by --unmask-cache dual");
}

TEST(Canvases, InspectDescribesThem) {
  const Finished finished = run(0, {"inspect", "--model", canvas_folder(), "--ranks", "2"});
  expect_success(finished);
  EXPECT_CONTAINS(finished.out, "canvas_length             8");
  EXPECT_EQ(finished.out.find("mask_token_id"), std::string::npos) << finished.out;
}

}  // namespace
}  // namespace tp::test
