#include "launch/commands/subcommands.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/generate/sequence_batch.h"
#include "launch/options/text_inputs.h"
#include "launch/ranks/engine_command.h"
#include "model/files/json_text.h"
#include "runtime/api/rounded.h"
#include "runtime/text/ranking.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

struct RankFlags {
  EngineFlags engine;
  std::string query;
  std::string batch_file;
  std::size_t top = 0;  // 0: all
  bool json = false;
  std::string output;
};

// Combines the query with each document, or takes ids of both. Consecutive texts form one list.
Ranking ranking_of(const Engine& engine, const std::string& query, const std::vector<BatchText>& documents) {
  Ranking ranking(engine);
  std::vector<std::string> texts;
  const auto add_texts = [&] {
    if (!texts.empty()) ranking.add(query, std::exchange(texts, {}));
  };
  for (const BatchText& document : documents) {
    require<RequestError>(!document.text || !query.empty(),
                          "{}: a text, which needs a query; give --query TEXT", document.where);
    require<RequestError>(
        document.text || !ranking.reads_lists(),
        "{}: ids, expected a text, because this model reads all documents in one prompt; give "
        "`text`",
        document.where);
    if (document.text) {
      texts.push_back(*document.text);
    } else {
      add_texts();
      ranking.add(document.tokens);
    }
  }
  add_texts();
  return ranking;
}

std::string ranked_line(const RankFlags& flags, const BatchText& document, std::size_t index, double score,
                        double relevance) {
  if (!flags.json) return fmt::format("{:.4f}  {}\n", score, document.text.value_or(document.where));
  nlohmann::ordered_json object = {
      {"index", index}, {"score", rounded(score, 8)}, {"relevance", rounded(relevance, 8)}};
  if (document.text) object["text"] = *document.text;
  return json_text(object) + "\n";
}

void rank(Engine& engine, const RankFlags& flags, const std::vector<BatchText>& documents,
          ResultOutput& output) {
  Ranking ranking = ranking_of(engine, flags.query, documents);
  std::vector<NamedRequest> requests;
  for (Request& request : ranking.requests())
    requests.push_back({std::move(request), documents[ranking.first_document(requests.size())].where});
  const std::vector<double> scores = ranking.scores(pooled_states(engine, std::move(requests), "ranking"));
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return scores[i]; });
  if (flags.top != 0) order.resize(std::min(order.size(), flags.top));
  for (const std::size_t i : order)
    output.write(ranked_line(flags, documents[i], i, scores[i], ranking.relevance(scores[i])));
  output.finish();
}

int run_rank(const CLI::App& command, const RankFlags& flags) {
  std::vector<BatchText> documents;
  std::optional<ResultOutput> output;
  const auto prepare = [&] {
    documents = read_texts(flags.batch_file);
    output.emplace(flags.output);
  };
  const auto compute = [&](Engine& engine) { rank(engine, flags, documents, *output); };
  return run_engine_command(command, flags.engine, Task::rank, prepare, compute);
}

}  // namespace

// `tp-infer rank`: scores how well documents answer a query, with a cross-encoder, a listwise reranker, or a
// decoder that answers yes and no.
void add_rank_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<RankFlags>();
  CLI::App* command = app.add_subcommand("rank", "Order documents by how well they answer a query");
  const OptionGroup options(*command);
  flags->engine.add_to(*command);
  flags->engine.add_batch_option_to(*command, 64);
  options.add_text("--query", flags->query, "The query");
  options
      .add_file("--batch", flags->batch_file,
                "A file with one document per line (- is standard input): plain, a JSON string, an object "
                "with `text`, or an object with the `ids` of query and document together")
      ->required();
  options.add("--top", flags->top, "N", whole_number(1), "Print only the best N (default: all)");
  command->add_flag("--json", flags->json, "One JSON object per document");
  add_output_option(*command, flags->output);
  command->footer(
      "Prints each document with the model's score, the highest first. --json adds the document's place in "
      "the\n"
      "file (index) and the score as a number from 0 to 1 (relevance).\n"
      "Example:\n"
      "  mpirun -np 2 tp-infer rank --model DIR --query \"Who wrote Faust?\" --batch documents.txt");
  command->callback([flags, command, &status] { status = run_rank(*command, *flags); });
}

}  // namespace tp
