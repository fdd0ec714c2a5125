// tp-infer embed, hidden, rank, classify, fill-mask and logits with encoders.
#include "tests/launch/program.h"
#include "tests/launch/text_encoder.h"
#include "tests/launch/text_model.h"
#include "tests/reference/encoder_fixture.h"
#include "tests/reference/npy_array.h"
#include "tests/runtime/engine/list_reranker_folder.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;
using reference::EncoderFixture;

double apart(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

// Whether the model's files describe its embeddings. encoder_test sets options for the other models.
bool has_pipeline(const EncoderFixture& fixture) {
  return std::filesystem::exists(fixture.folder / "modules.json");
}

std::string input_of(const EncoderFixture& fixture) { return (fixture.folder / "input.json").string(); }

TEST(Encoders, EmbeddingsMatchTheOriginalPipelineOnSeveralRanks) {
  const TemporaryDirectory directory;
  const std::string output = (directory.path() / "x.npy").string();
  for (const EncoderFixture& fixture : reference::encoder_fixtures()) {
    if (!fixture.embedding || !has_pipeline(fixture)) continue;
    for (const std::size_t ranks : {0, 3}) {
      expect_success(run(
          ranks, {"embed", "--model", fixture.folder, "--tokens", input_of(fixture), "--output", output}));
      EXPECT_LE(apart(read_npy(output).values, *fixture.embedding), 1e-4)
          << fixture.name << ", " << ranks << " ranks";
    }
  }
}

TEST(Encoders, EmbeddingsOfABatchMatchItsRowsWithoutPadding) {
  for (const EncoderFixture& fixture : reference::encoder_fixtures()) {
    if (fixture.batch_embedding.empty() || !has_pipeline(fixture)) continue;
    std::string lines;
    for (const reference::EncoderInput& input : fixture.batch) {
      json line = {{"ids", input.ids}};
      if (!input.types.empty()) line["token_type_ids"] = input.types;
      lines += line.dump() + "\n";
    }
    const Finished finished = run(2, {"embed", "--model", fixture.folder, "--batch", "-"}, {.input = lines});
    expect_success(finished);
    const std::vector<json> results = json_lines(finished.out);
    ASSERT_EQ(results.size(), fixture.batch_embedding.size());
    for (std::size_t row = 0; row < results.size(); ++row)
      EXPECT_LE(apart(results[row].at("embedding"), fixture.batch_embedding[row]), 1e-4) << fixture.name;
  }
}

TEST(Encoders, PoolingAndNormalizationAreAsAskedFor) {
  const TemporaryDirectory directory;
  const EncoderFixture fixture = reference::encoder_fixture("bert-embed-mean");
  const std::string output = (directory.path() / "x.npy").string();
  const auto embedded = [&](const std::string& pooling) {
    // Without modules.json, embeddings are not normalized.
    const std::filesystem::path folder = directory.path() / pooling;
    std::filesystem::create_directory(folder);
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(fixture.folder / file, folder / file);
    expect_success(run(2, {"embed", "--model", folder, "--tokens", input_of(fixture), "--pooling", pooling,
                           "--output", output}));
    return read_npy(output).values;
  };
  expect_success(
      run(0, {"hidden", "--model", fixture.folder, "--tokens", input_of(fixture), "--output", output}));
  const std::vector<float> hidden = read_npy(output).values;
  ASSERT_LE(fixture.hidden.difference(hidden), 1e-4);
  const std::size_t columns = fixture.hidden.columns();
  const auto width = static_cast<std::ptrdiff_t>(columns);
  EXPECT_LE(apart(embedded("cls"), {hidden.begin(), hidden.begin() + width}), 1e-4);
  EXPECT_LE(apart(embedded("last"), {hidden.end() - width, hidden.end()}), 1e-4);
  EXPECT_LE(apart(embedded("pooler"), *fixture.pooler), 1e-4);
  std::vector<float> mean(columns);
  for (std::size_t i = 0; i < hidden.size(); ++i)
    mean[i % columns] += hidden[i] / static_cast<float>(fixture.hidden.positions());
  EXPECT_LE(apart(embedded("mean"), mean), 1e-4);
  EXPECT_LE(apart(embedded("auto"), mean), 1e-4);
}

TEST(Encoders, EmbeddingsReadTheTokensOfSentenceTransformers) {
  const TemporaryDirectory directory;
  const EncoderFixture fixture = reference::encoder_fixture("bert-embed-mean");
  const std::filesystem::path folder = directory.path() / "model";
  std::filesystem::copy(fixture.folder, folder, std::filesystem::copy_options::recursive);
  directory.write("model/1_Pooling/config.json", R"({"embedding_dimension": 48, "pooling_mode": "mean"})");
  directory.write("model/sentence_bert_config.json", R"({"max_seq_length": 5})");
  const std::vector<TokenId> ids(fixture.input.ids.begin(), fixture.input.ids.begin() + 5);
  const std::string five = directory.write("five.json", json(ids).dump()).string();
  const std::string output = (directory.path() / "x.npy").string();
  const auto embed = [&](const std::string& tokens, const Arguments& more) {
    Arguments arguments = {"embed", "--model", folder, "--tokens", tokens, "--output", output};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(kNoMpirun, arguments);
  };
  expect_success(embed(five, {}));
  const std::vector<float> expected = read_npy(output).values;
  expect_success(embed(input_of(fixture), {"--truncate"}));
  EXPECT_LE(apart(read_npy(output).values, expected), 1e-6);
  expect_one_error(embed(input_of(fixture), {}), 1,
                   "tokens but the model embeds at most 5 (max_seq_length in sentence_bert_config.json)");
}

TEST(Encoders, HiddenStatesMatchTheOriginalCodeForEveryKindOfModel) {
  const TemporaryDirectory directory;
  const std::string output = (directory.path() / "x.npy").string();
  for (const EncoderFixture& fixture : reference::encoder_fixtures()) {
    expect_success(
        run(2, {"hidden", "--model", fixture.folder, "--tokens", input_of(fixture), "--output", output}));
    EXPECT_EQ(read_npy(output).shape,
              (std::vector<std::size_t>{fixture.hidden.positions(), fixture.hidden.columns()}));
    EXPECT_LE(fixture.hidden.difference(read_npy(output).values), 1e-4) << fixture.name;
  }
}

TEST(Encoders, LogitsAreOfTokensOrOfLabels) {
  const TemporaryDirectory directory;
  const std::string output = (directory.path() / "x.npy").string();
  for (const EncoderFixture& fixture : reference::encoder_fixtures()) {
    if (!fixture.logits && !fixture.labels) continue;
    expect_success(
        run(2, {"logits", "--model", fixture.folder, "--tokens", input_of(fixture), "--output", output}));
    EXPECT_EQ(read_npy(output).shape.size(), 2U);
    const std::vector<float> found = read_npy(output).values;
    EXPECT_LE(fixture.labels ? apart(found, *fixture.labels) : fixture.logits->difference(found), 1e-4)
        << fixture.name;
  }
}

TEST(Encoders, FillMaskFindsTheMostLikelyTokens) {
  const TextEncoder model("albert-mlm");
  const Finished finished =
      run(2, {"fill-mask", "--model", model.path(), "--prompt", "red [MASK] sky", "--top-k", "3", "--json"});
  expect_success(finished);
  const json mask = json_lines(finished.out).at(0).at("masks").at(0);
  EXPECT_EQ(mask.at("position"), 2);
  ASSERT_EQ(mask.at("candidates").size(), 3U);
  const auto file = model.directory().write("ids.json", R"({"ids": [1, 10, 3, 13, 2]})");
  const std::string output = (model.directory().path() / "x.npy").string();
  expect_success(run(1, {"logits", "--model", model.path(), "--tokens", file, "--output", output}));
  const NpyArray logits = read_npy(output);
  const float* const row = logits.view().row(2);
  const std::size_t columns = logits.view().columns();
  EXPECT_EQ(mask.at("candidates").at(0).at("id"), std::max_element(row, row + columns) - row);
  double sum = 0.0;
  for (std::size_t i = 0; i < columns; ++i) sum += std::exp(row[i]);
  const auto id = mask.at("candidates").at(1).at("id").get<std::size_t>();
  EXPECT_NEAR(mask.at("candidates").at(1).at("probability").get<double>(), std::exp(row[id]) / sum, 1e-5);
  expect_one_error(run(1, {"fill-mask", "--model", model.path(), "--prompt", "red sky"}), 1,
                   "text 1: expected a mask (token 3), found none");
}

TEST(Encoders, RankOrdersDocumentsByTheScoresOfPairs) {
  const TextEncoder model("xlmroberta-reranker");
  const std::string documents = "red sky\n\"green blue\"\n{\"text\": \"sky\"}\n";
  const Finished finished =
      run(2, {"rank", "--model", model.path(), "--query", "blue sky", "--batch", "-", "--json"},
          {.input = documents});
  expect_success(finished);
  const std::vector<json> lines = json_lines(finished.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_GE(lines[0].at("score"), lines[1].at("score"));
  EXPECT_GE(lines[1].at("score"), lines[2].at("score"));
  // The pair's ids: [CLS] blue sky [SEP] red sky [SEP].
  const Finished by_ids = run(1, {"rank", "--model", model.path(), "--batch", "-", "--json"},
                              {.input = R"({"ids": [1, 12, 13, 2, 10, 13, 2]})"
                                        "\n"});
  expect_success(by_ids);
  const auto first = std::ranges::find_if(lines, [](const json& line) { return line.at("index") == 0; });
  EXPECT_NEAR(first->at("score").get<double>(), json_lines(by_ids.out).at(0).at("score").get<double>(), 1e-5);
  expect_one_error(run(1, {"rank", "--model", model.path(), "--batch", "-"}, {.input = "red\n"}), 1,
                   "standard input:1: a text, which needs a query; give --query TEXT");
}

TEST(Encoders, RankReadsAListOfDocumentsWithAListwiseReranker) {
  const ListRerankerFolder model;
  const std::string documents = "red sky\n\"green blue\"\n{\"text\": \"sky\"}\n";
  std::vector<json> expected;
  for (const std::size_t ranks : {1, 2, 3}) {
    const Finished finished =
        run(ranks, {"rank", "--model", model.path(), "--query", "blue sky", "--batch", "-", "--json"},
            {.input = documents});
    expect_success(finished);
    const std::vector<json> lines = json_lines(finished.out);
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_GE(lines[0].at("score"), lines[1].at("score"));
    EXPECT_GE(lines[1].at("score"), lines[2].at("score"));
    if (expected.empty()) expected = lines;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i].at("relevance"), lines[i].at("score"));
      EXPECT_EQ(lines[i].at("text"), expected[i].at("text"));
      EXPECT_NEAR(lines[i].at("score").get<double>(), expected[i].at("score").get<double>(), 1e-5);
    }
  }
  expect_one_error(
      run(1, {"rank", "--model", model.path(), "--query", "a", "--batch", "-"},
          {.input = "red\n{\"ids\": [1, 2]}\n"}),
      1, "standard input:2: ids, expected a text, because this model reads all documents in one prompt");
  expect_one_error(run(1, {"classify", "--model", model.path(), "--prompt", "red"}), 1,
                   "found a listwise reranker (JinaForRanking); use tp-infer hidden, embed, rank with it");
}

TEST(Encoders, ClassifyGivesTheProbabilityOfEveryLabel) {
  const TextEncoder model("xlmroberta-reranker");
  const Finished finished = run(2, {"classify", "--model", model.path(), "--prompt", "red sky", "--json"});
  expect_success(finished);
  const json scores = json_lines(finished.out).at(0).at("scores").at(0);
  EXPECT_EQ(scores.at("label"), "LABEL_0");
  EXPECT_NEAR(scores.at("probability").get<double>(), 1 / (1 + std::exp(-scores.at("score").get<double>())),
              1e-6);
  const Finished text = run(1, {"classify", "--model", model.path(), "--prompt", "red sky"});
  EXPECT_EQ(text.out, fmt::format("LABEL_0 {:.4f}\n", scores.at("probability").get<double>()));
}

TEST(Encoders, AnUnsuitableCommandNamesTheSuitableOnes) {
  const std::string encoder = reference::encoder_fixture("bert-embed-mean").folder;
  const std::string masked = reference::encoder_fixture("albert-mlm").folder;
  const std::string decoder = fixture_folder("llama-gqa");
  expect_one_error(
      run(2, {"generate", "--model", encoder, "--prompt", "a"}), 1,
      "cannot generate text with " + encoder +
          ": expected a decoder or an encoder-decoder, found an encoder (BertModel); use tp-infer hidden, "
          "embed with it, or another model");
  expect_one_error(
      run(1, {"perplexity", "--model", masked, "--tokens", masked + "/input.json"}), 1,
      "expected a decoder, found a masked language model (AlbertForMaskedLM); use tp-infer logits, "
      "hidden, embed, fill-mask with it");
  expect_one_error(
      run(1, {"fill-mask", "--model", decoder, "--tokens", decoder + "/prompt.json"}), 1,
      "cannot fill masks with " + decoder +
          ": expected a masked language model, found a decoder (LlamaForCausalLM); use tp-infer generate");
  expect_one_error(run(1, {"rank", "--model", encoder, "--batch", "-"}, {.input = "a\n"}), 1,
                   "expected a sequence classifier, a listwise reranker, or a decoder that answers yes and "
                   "no, found an encoder "
                   "(BertModel)");
}

// The model's tokens also attend to later tokens, so it can't predict them.
TEST(Encoders, ADecoderWithoutCausalAttentionOnlyEmbedsTexts) {
  const CheckpointCopies copies;
  const std::filesystem::path causal = copies.copy("llama-gqa", "causal");
  const std::filesystem::path model = copies.copy("llama-gqa", "model");
  change_config(model, {{"is_causal", false}});
  const std::string reason =
      "expected a decoder or an encoder-decoder, found a decoder without causal attention (is_causal is "
      "false) "
      "(LlamaForCausalLM); use tp-infer logits, hidden, embed with it";
  expect_one_error(run(1, {"generate", "--model", model, "--prompt", "a"}), 1, reason);
  expect_one_error(run(1, {"chat", "--model", model}), 1, reason);
  const auto embedding = [](const std::filesystem::path& folder, std::size_t ranks) {
    const Finished finished = run(ranks, {"embed", "--model", folder, "--batch", "-", "--pooling", "cls"},
                                  {.input = R"({"ids": [5, 6, 7, 8, 9, 10]})" + std::string("\n")});
    expect_success(finished);
    return json_lines(finished.out).at(0).at("embedding").get<std::vector<float>>();
  };
  const std::vector<float> vector = embedding(model, kNoMpirun);
  for (const std::size_t ranks : {2, 3}) EXPECT_LE(apart(embedding(model, ranks), vector), 1e-4);
  EXPECT_GT(apart(embedding(causal, 1), vector), 1e-2);  // the first token sees later tokens
}

TEST(Encoders, WrongInputIsOneError) {
  const TemporaryDirectory directory;
  const std::string model = reference::encoder_fixture("bert-embed-mean").folder;
  const auto with_tokens = [&](const std::string& tokens) {
    const auto file = directory.write("ids.json", tokens);
    return run(
        2, {"hidden", "--model", model, "--tokens", file, "--output", (directory.path() / "x.npy").string()});
  };
  expect_one_error(with_tokens(R"({"ids": [1, 2], "token_type_ids": [0]})"), 1,
                   "`token_types` has 1 entries, expected one for each of its 2 tokens");
  expect_one_error(with_tokens(R"({"ids": [1, 2], "token_type_ids": [0, 7]})"), 1,
                   "token_type_ids has a type 7, but the model has 0 to 1 (type_vocab_size)");
  expect_one_error(with_tokens(R"({"ids": [1, 2], "token_type_ids": [0, -1]})"), 1,
                   "`token_type_ids` must have whole numbers from 0 to 255, found -1 at place 1");
  expect_one_error(with_tokens(R"({"ids": [1, 2], "global_attention_mask": [1, 0]})"), 1,
                   "this model has no windows that leave any out");
  json many = json::array();
  for (int i = 0; i < 65; ++i) many.push_back(1);
  expect_one_error(with_tokens(many.dump()), 1, "prompt has 65 tokens but a sequence has at most 64");
  EXPECT_EQ(directory.files(), std::vector<std::string>{"ids.json"}) << "nothing half done is left";
  expect_one_line(run(0, {"embed", "--model", model}), 2,
                  "expected one of --prompt TEXT, --batch FILE and --tokens FILE, found none");
}

TEST(Encoders, InspectDescribesThem) {
  for (const EncoderFixture& fixture : reference::encoder_fixtures()) {
    const Finished finished =
        run(kNoMpirun, {"inspect", "--model", fixture.folder, "--json", "--ranks", "3"});
    expect_success(finished);
    const json shape = json::parse(finished.out);
    EXPECT_FALSE(shape.at("kind").get<std::string>().empty()) << fixture.name;
    EXPECT_GT(shape.at("parameters").get<std::size_t>(), 50000U) << fixture.name;
  }
}

}  // namespace
}  // namespace tp::test
