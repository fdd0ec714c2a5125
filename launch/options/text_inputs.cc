#include "launch/options/text_inputs.h"

#include "launch/common/option_group.h"
#include "tp/internal/require.h"

namespace tp {

void TextInputFlags::add_to(CLI::App& command) {
  const std::string title = "Input (one of them; FILE may be - for standard input)";
  const OptionGroup group(command, title);
  group.add_text("-p,--prompt", prompts, "A text; may be given several times");
  group.add_file("--batch", batch_file,
                 "A file with one text per line: plain, a JSON string, or an object with `text` or `ids`");
  add_token_file_option(command, token_file)->group(title);
}

void TextInputFlags::require_one() const {
  const int kinds = (prompts.empty() ? 0 : 1) + (batch_file.empty() ? 0 : 1) + (token_file.empty() ? 0 : 1);
  require<CLI::ValidationError>(
      kinds == 1,
      "expected one of --prompt TEXT, --batch FILE and --tokens FILE, found {}; give one kind of input",
      kinds == 0 ? "none" : fmt::to_string(kinds));
}

std::vector<BatchText> TextInputFlags::read() const {
  if (!batch_file.empty()) return read_texts(batch_file);
  if (!token_file.empty()) return {{.where = token_file, .tokens = read_input_file(token_file)}};
  std::vector<BatchText> texts;
  for (const std::string& prompt : prompts)
    texts.push_back({.where = fmt::format("text {}", texts.size() + 1), .text = prompt});
  return texts;
}

CLI::Option* add_token_file_option(CLI::App& command, std::string& file) {
  return OptionGroup(command).add_file(
      "--tokens", file,
      "A JSON file (- is standard input): a list of token ids, or an object with `ids` and "
      "optionally `token_type_ids` and `global_attention_mask`");
}

Request encode_input(const BatchText& input, const std::function<Request(const std::string&)>& encode) {
  try {
    return input.text ? encode(*input.text) : input.tokens;
  } catch (const RequestError& error) {
    throw_error<RequestError>("{}: {}", input.where, error.what());
  }
}

void truncate(Request& input, std::size_t longest, const std::function<bool(TokenId)>& is_special) {
  if (input.prompt.size() <= longest) return;
  const TokenId last = input.prompt.back();
  input.prompt.resize(longest);
  if (is_special(last)) input.prompt.back() = last;
  if (!input.token_types.empty()) input.token_types.resize(longest);
  if (!input.global_tokens.empty()) input.global_tokens.resize(longest);
}

}  // namespace tp
