// What a checkpoint says about conversations: the templates that make one text of many messages.
#pragma once

#include "model/chat/jinja/template.h"

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace tp {

// The chat template of a model, with what Hugging Face's apply_chat_template gives it.
class ChatTemplate {
 public:
  // The template of a model: of a folder chat_template.jinja, else `chat_template` of tokenizer_config.json,
  // else chat_template.json; of a GGUF file its own; nothing if there is none. Further templates have names:
  // in a list of a JSON file, in a GGUF file, and as files of the folder additional_chat_templates. The
  // template is then "default", and "tool_use" for conversations with tools. Throws CheckpointError for a
  // file that is damaged and for a template that cannot be read.
  static std::optional<ChatTemplate> load(const std::filesystem::path& model);

  struct PlainSources {
    std::optional<std::string> usual{};
    std::optional<std::string> with_tools{};
  };
  // The texts of a model's templates as they stand.
  static PlainSources sources_in(const std::filesystem::path& model);

  // A template in a file of its own. The special tokens are those of the model; none if that is empty. Throws
  // CheckpointError.
  static ChatTemplate load_file(const std::filesystem::path& file, const std::filesystem::path& model = {});

  // The text that a model continues. `conversation` is what the template knows by name: `messages`, and
  // perhaps `tools`, `add_generation_prompt` (false unless given) and others, which win over the model's
  // bos_token, eos_token and the like. All texts that stem from it are input (roles are not, see
  // jinja/json_values.h), also a bos_token in it; the template's own and the model's special tokens are not.
  // Special tokens are part of the text: encode it without adding any. Throws RequestError if the template
  // refuses the messages. May be called by several threads. `options.own` is not used.
  MarkedText render(const nlohmann::ordered_json& conversation, jinja::RenderOptions options = {}) const;

  // The Jinja of the template, and of the one for conversations with tools if that is another.
  const std::string& source() const { return source_; }

  // Whether conversations with tools have a template of their own.
  bool has_tool_template() const { return with_tools_.has_value(); }

  // The text of eos_token; empty if the model names none.
  std::string eos_token() const;

 private:
  ChatTemplate(jinja::Template plain, std::string source)
      : plain_(std::move(plain)), source_(std::move(source)) {}

  jinja::Template plain_;
  std::string source_;
  std::optional<jinja::Template> with_tools_;
  nlohmann::ordered_json special_tokens_ = nlohmann::ordered_json::object();
};

}  // namespace tp
