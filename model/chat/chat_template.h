// The chat templates of a checkpoint, which render messages as one text.
#pragma once

#include "model/chat/jinja/template.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tp {

// The chat template of a model, with the variables that Hugging Face's apply_chat_template provides.
class ChatTemplate {
 public:
  // Loads a model's template, or returns nullopt if the model has none. In a folder, the template is
  // chat_template.jinja, else `chat_template` of tokenizer_config.json, else chat_template.json. A GGUF file
  // has its own. Further templates have names: in a list of a JSON file, in a GGUF file, and as files in the
  // folder additional_chat_templates. Then "default" is used, or "tool_use" for conversations with tools.
  // Throws CheckpointError for a damaged file and an invalid template.
  static std::optional<ChatTemplate> load(const std::filesystem::path& model);

  struct PlainSources {
    std::optional<std::string> usual{};
    std::optional<std::string> with_tools{};
  };
  // The unparsed texts of a model's templates.
  static PlainSources sources_in(const std::filesystem::path& model);

  // The texts of the special tokens that a model's files name, by Hugging Face's names: bos_token, eos_token,
  // pad_token and others.
  static nlohmann::ordered_json special_tokens_in(const std::filesystem::path& model);

  // Loads a template from a separate file. The special tokens are the model's; none if `model` is empty.
  // Throws CheckpointError.
  static ChatTemplate load_file(const std::filesystem::path& file, const std::filesystem::path& model = {});

  // Loads the template in `file`, or the model's own template if `file` is empty. Throws CheckpointError if
  // there is none. `advice`: what to do then, the end of the error's text.
  static ChatTemplate open(const std::filesystem::path& file, const std::filesystem::path& model,
                           std::string_view advice);

  // Renders the text that a model continues. `conversation` contains the template's variables: `messages`,
  // and perhaps `tools`, `add_generation_prompt` (default: false) and others. They override the model's
  // bos_token, eos_token and similar tokens. All texts from the conversation are input, including a bos_token
  // in it (but not roles, see jinja/json_values.h). The template's own texts and the model's special tokens
  // are not input. Special tokens are part of the result: encode it without adding any. Throws RequestError
  // if the template refuses the messages. Thread-safe. `options.own` is not used.
  MarkedText render(const nlohmann::ordered_json& conversation, jinja::RenderOptions options = {}) const;

  // The Jinja source of the template, and of the template for conversations with tools if the model has one.
  const std::string& source() const { return source_; }

  // The Jinja source of the template for conversations without tools.
  std::string_view usual_source() const { return std::string_view(source_).substr(0, usual_size_); }

  // See special_tokens_in().
  const nlohmann::ordered_json& special_tokens() const { return special_tokens_; }

  // Whether the model has a separate template for conversations with tools.
  bool has_tool_template() const { return with_tools_.has_value(); }

  // The text of eos_token; empty if the model names no such token.
  std::string eos_token() const;

 private:
  ChatTemplate(jinja::Template plain, std::string source)
      : plain_(std::move(plain)), source_(std::move(source)), usual_size_(source_.size()) {}

  jinja::Template plain_;
  std::string source_;
  std::size_t usual_size_;  // bytes of source_ that belong to plain_
  std::optional<jinja::Template> with_tools_;
  nlohmann::ordered_json special_tokens_ = nlohmann::ordered_json::object();
};

}  // namespace tp
