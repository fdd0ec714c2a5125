#include "launch/chat/messages_file.h"
#include "launch/commands/subcommands.h"
#include "launch/commands/tokenize_command.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/options/chat_templates.h"
#include "launch/options/model_path.h"
#include "launch/ranks/on_first_rank.h"

#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kRenderChatExamples = R"(Examples:
  tp-infer render-chat --model DIR --messages messages.json
  tp-infer render-chat --template chat.jinja --messages - < messages.json
  tp-infer render-chat --model DIR --messages FILE --ids       the prompt's token ids
The file is a JSON object: `messages`, and optionally `add_generation_prompt` (false unless given),
`tools`, `bos_token`, `eos_token` and whatever else the template knows by name.)";

struct RenderChatArguments {
  std::string model;
  std::string template_file;
  std::string messages;
  std::optional<std::string> now;
  bool prints_ids = false;
  std::string output;
};

void run(const RenderChatArguments& arguments) {
  const std::filesystem::path model = arguments.model.empty() ? "" : find_model(arguments.model);
  const ChatTemplate chat = open_chat_template(arguments.template_file, model);
  const MarkedText text = chat.render(read_messages_file(arguments.messages), {.now = arguments.now});
  const std::string result = arguments.prints_ids
                                 ? list_of(Tokenizer::load(model).encode(text, AddSpecial::no)) + "\n"
                                 : text.text();
  ResultOutput output(arguments.output);
  output.write(result);
  output.finish();
}

}  // namespace

// `tp-infer render-chat`: prints messages rendered by a model's chat template.
void add_render_chat_command(CLI::App& app, int& /*status*/) {
  CLI::App* command = app.add_subcommand("render-chat", "Render a conversation with the chat template");
  const OptionGroup options(*command);
  const auto arguments = std::make_shared<RenderChatArguments>();
  options.add("-m,--model", arguments->model, "DIR", not_empty("a model"),
              "A model's folder or a GGUF file, with a chat template");
  options.add_file("--template", arguments->template_file,
                   "A chat template (Jinja) to use instead of the model's");
  options
      .add_file("--messages", arguments->messages, "A JSON file with the conversation; - is standard input")
      ->required();
  options.add_text("--now", arguments->now,
                   "The text that strftime_now returns, whatever its format (default: the local time)");
  command->add_flag("--ids", arguments->prints_ids,
                    "Print the token ids as a JSON list; texts in messages never become control tokens");
  add_output_option(*command, arguments->output);
  command->footer(kRenderChatExamples);
  command->callback(on_first_rank(*command, [arguments] {
    if (arguments->model.empty() && arguments->template_file.empty())
      throw CLI::ValidationError("no chat template; give --model DIR or --template FILE");
    if (arguments->prints_ids && arguments->model.empty())
      throw CLI::ValidationError("--ids needs a tokenizer; give --model DIR");
    run(*arguments);
  }));
}

}  // namespace tp
