#include "launch/commands/detokenize_command.h"

#include "launch/commands/subcommands.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/options/model_path.h"
#include "launch/ranks/on_first_rank.h"
#include "model/files/json_text.h"
#include "model/files/strict_json.h"
#include "tp/internal/require.h"

#include <iostream>
#include <limits>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kDetokenizeExamples = R"(Examples:
  echo '[1, 15043, 3186]' | tp-infer detokenize --model DIR
  echo '{"ids": [1, 15043]}' | tp-infer detokenize --model DIR --jsonl
  tp-infer tokenize --model DIR < in.txt | tp-infer detokenize --model DIR --skip-special
)";

[[noreturn]] void fail(std::string_view found) {
  throw_error<RequestError>(
      "cannot decode it: expected a JSON list of ids such as [1, 15043] or {{\"ids\": [1, 15043]}}, found "
      "{}; give one "
      "list per line",
      found);
}

TokenId id_from_json(const nlohmann::json& value) {
  if (!value.is_number_integer()) fail(fmt::format("{} in the list", value.type_name()));
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= std::numeric_limits<TokenId>::max()
                        : value.get<std::int64_t>() >= std::numeric_limits<TokenId>::min();
  if (!fits) fail(fmt::format("the id {}, which is outside any vocabulary", json_text(value)));
  return value.get<TokenId>();
}

nlohmann::json parse_line(const std::string& line) {
  try {
    return parse_strict_json(line);
  } catch (const JsonError& error) {
    fail(error.what());
  }
}

std::vector<TokenId> ids_of_line(const std::string& line) {
  const nlohmann::json value = parse_line(line);
  const bool has_ids = value.is_object() && value.contains("ids");
  const nlohmann::json& list = has_ids ? value["ids"] : value;
  if (!list.is_array()) fail(list.type_name());
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const nlohmann::json& id : list) ids.push_back(id_from_json(id));
  return ids;
}

struct DetokenizeArguments {
  std::string model;
  bool skip_special = false;
  std::string output;
  DetokenizeOptions options;
};

void run(DetokenizeArguments& arguments) {
  std::ios::sync_with_stdio(false);
  if (arguments.skip_special) arguments.options.skip_special = SkipSpecial::yes;
  const std::filesystem::path model = find_model(arguments.model, {".json", ".model"});
  const Tokenizer tokenizer = Tokenizer::load(model);
  ResultOutput output(arguments.output);
  detokenize_lines(tokenizer, arguments.options, std::cin,
                   [&](std::string_view lines) { output.write(lines); });
  output.finish();
}

}  // namespace

void detokenize_lines(const Tokenizer& tokenizer, const DetokenizeOptions& options, std::istream& in,
                      const TextSink& write) {
  for_each_line(in, write, [&](const std::string& line) {
    const std::string text = tokenizer.decode(ids_of_line(line), options.skip_special);
    return options.jsonl ? json_text(nlohmann::json(text)) : text;
  });
}

// `tp-infer detokenize`: ids to text.
void add_detokenize_command(CLI::App& app, int& /*status*/) {
  CLI::App* command = app.add_subcommand("detokenize", "Print the texts of token ids");
  const OptionGroup options(*command);
  const auto arguments = std::make_shared<DetokenizeArguments>();
  options
      .add("-m,--model", arguments->model, "DIR", not_empty("a model"),
           "A model's folder, a GGUF file, a tokenizer.json, or a SentencePiece *.model")
      ->required();
  command->add_flag("--jsonl", arguments->options.jsonl, "Print each text as a JSON string on its own line");
  command->add_flag("--skip-special", arguments->skip_special,
                    "Leave out control tokens such as BOS and EOS");
  add_output_option(*command, arguments->output);
  command->footer(kDetokenizeExamples);
  command->callback(on_first_rank(*command, [arguments] { run(*arguments); }));
}

}  // namespace tp
