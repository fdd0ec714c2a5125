#include "launch/commands/tokenize_command.h"

#include "launch/commands/subcommands.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/options/model_path.h"
#include "launch/ranks/on_first_rank.h"
#include "model/files/strict_json.h"
#include "tp/internal/require.h"

#include <iostream>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kTokenizeExamples = R"(Examples:
  tp-infer tokenize --model DIR "Hello world"
  tp-infer tokenize --model DIR < texts.txt          a list of ids for every line
  tp-infer tokenize --model DIR --jsonl < texts.jsonl
  tp-infer tokenize --model DIR -- "--a text that begins with dashes"
)";

[[noreturn]] void fail(std::string_view found) {
  throw_error<RequestError>(
      "cannot tokenize it: expected a JSON string such as \"a\\nb\" (--jsonl), found {}; quote the text, or "
      "leave out --jsonl",
      found);
}

std::string text_of_json_line(const std::string& line) {
  try {
    const nlohmann::json value = parse_strict_json(line);
    if (!value.is_string()) fail(value.type_name());
    return value.get<std::string>();
  } catch (const JsonError& error) {
    fail(error.what());
  }
}

struct TokenizeArguments {
  std::string model;
  std::string text;
  bool has_text = false;
  bool no_special = false;
  std::string output;
  TokenizeOptions options;
};

void run(TokenizeArguments& arguments) {
  std::ios::sync_with_stdio(false);
  if (arguments.no_special) arguments.options.add_special = AddSpecial::no;
  const std::filesystem::path model = find_model(arguments.model, {".json", ".model"});
  const Tokenizer tokenizer = Tokenizer::load(model);
  ResultOutput output(arguments.output);
  if (arguments.has_text) {
    output.write(list_of(tokenizer.encode(arguments.text, arguments.options.add_special)) + "\n");
  } else {
    tokenize_lines(tokenizer, arguments.options, std::cin,
                   [&](std::string_view lines) { output.write(lines); });
  }
  output.finish();
}

}  // namespace

std::string list_of(const std::vector<TokenId>& ids) { return fmt::format("[{}]", fmt::join(ids, ", ")); }

void tokenize_lines(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
                    const TextSink& write) {
  for_each_line(in, write, [&](const std::string& line) {
    return list_of(tokenizer.encode(options.jsonl ? text_of_json_line(line) : line, options.add_special));
  });
}

// `tp-infer tokenize`: text to ids.
void add_tokenize_command(CLI::App& app, int& /*status*/) {
  CLI::App* command = app.add_subcommand("tokenize", "Print the token ids of texts");
  const OptionGroup options(*command);
  const auto arguments = std::make_shared<TokenizeArguments>();
  options
      .add("-m,--model", arguments->model, "DIR", not_empty("a model"),
           "A model's folder, a GGUF file, a tokenizer.json, or a SentencePiece *.model")
      ->required();
  CLI::Option* text = options.add("TEXT", arguments->text, "", CLI::Validator(),
                                  "The text (default: each line of standard input is a text)");
  command->add_flag("--jsonl", arguments->options.jsonl,
                    "Read each line as a JSON string, so that texts may contain newlines");
  command->add_flag("--no-special", arguments->no_special,
                    "Don't add BOS and EOS; within the text they are still recognized");
  add_output_option(*command, arguments->output);
  command->footer(kTokenizeExamples);
  command->callback(on_first_rank(*command, [arguments, text] {
    arguments->has_text = text->count() > 0;
    require<CLI::ValidationError>(
        !arguments->has_text || !arguments->options.jsonl,
        "--jsonl applies to lines of standard input, but a TEXT is given; leave out one of them");
    run(*arguments);
  }));
}

}  // namespace tp
