#include "model/chat/chat_template.h"

#include "model/files/file_kind.h"
#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/tokenizer/gguf_vocabulary.h"
#include "model/weights/gguf/gguf_files.h"
#include "tp/internal/require.h"

#include <fstream>
#include <iterator>
#include <map>

#include <fmt/ranges.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefault = "default";
constexpr const char* kWithTools = "tool_use";
constexpr const char* kAdditionalTemplates = "additional_chat_templates";

struct TemplateSource {
  std::string file;  // name in errors
  std::string text;
};

using NamedTemplates = std::map<std::string, TemplateSource>;

bool is_there(const fs::path& file) { return has_file(file); }

std::string read_template(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  // Directories can be opened, but not read.
  const bool readable =
      stream.is_open() && (stream.peek() != std::ifstream::traits_type::eof() || stream.eof());
  require<CheckpointError>(
      readable, "cannot read the chat template {}: expected a file; check the path and its permissions",
      file.string());
  refuse_other_kinds(file, FileKind::text);
  stream.clear();
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Reads `chat_template` of a JSON file: a text, or a list of {"name": .., "template": ..}.
NamedTemplates templates_in(const JsonNode& json, const std::string& file) {
  const std::optional<JsonNode> chat = json.find("chat_template");
  if (!chat) return {};
  if (!chat->is_array()) return {{kDefault, {file, chat->string()}}};
  NamedTemplates found;
  for (const JsonNode& element : chat->elements()) {
    const std::string name = element.at("name").string();
    const std::string shown = name == kDefault ? file : fmt::format("{} ({})", file, name);
    found[name] = {shown, element.at("template").string()};
  }
  return found;
}

NamedTemplates templates_in_json(const fs::path& folder) {
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    const fs::path file = folder / name;
    if (!is_there(file)) continue;
    const nlohmann::json document = read_json_file(file);
    NamedTemplates found = templates_in(JsonNode(document, file), file.string());
    if (!found.empty()) return found;
  }
  return {};
}

// transformers saves a list of templates as chat_template.jinja and additional_chat_templates/NAME.jinja.
NamedTemplates find_templates(const fs::path& folder) {
  const fs::path own_file = folder / "chat_template.jinja";
  NamedTemplates found = is_there(own_file)
                             ? NamedTemplates{{kDefault, {own_file.string(), read_template(own_file)}}}
                             : templates_in_json(folder);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / kAdditionalTemplates, ignored)) {
    if (entry.path().extension() == ".jinja" && is_there(entry.path()))
      found[entry.path().stem().string()] = {entry.path().string(), read_template(entry.path())};
  }
  return found;
}

// Reads bos_token, eos_token, pad_token, ...: members that are a text, or an object with the text in
// `content`.
void read_special_tokens(const fs::path& file, nlohmann::ordered_json& tokens) {
  if (!is_there(file)) return;
  const nlohmann::json document = read_json_file(file);
  const JsonNode json(document, file);
  json.for_each_member([&](const std::string& name, const nlohmann::json& value) {
    if (!name.ends_with("_token")) return;
    if (value.is_string()) tokens[name] = value;
    if (value.is_object()) tokens[name] = json.at(name).at("content").string();
  });
}

// A model's chat templates and special tokens.
struct Sources {
  NamedTemplates templates{};
  nlohmann::ordered_json special_tokens = nlohmann::ordered_json::object();
};

Sources sources_in_gguf(const GgufFiles& files) {
  Sources sources;
  const std::optional<EmbeddedVocabulary> vocabulary = gguf_vocabulary(files.metadata());
  if (!vocabulary) return sources;
  if (vocabulary->chat_template) sources.templates[kDefault] = {files.name(), *vocabulary->chat_template};
  if (vocabulary->tool_template)
    sources.templates[kWithTools] = {fmt::format("{} ({})", files.name(), kWithTools),
                                     *vocabulary->tool_template};
  const auto add = [&](const char* name, std::optional<TokenId> id) {
    const auto& tokens = vocabulary->tokens;
    if (id && *id >= 0 && static_cast<std::size_t>(*id) < tokens.size())
      sources.special_tokens[name] = tokens[static_cast<std::size_t>(*id)];
  };
  add("bos_token", vocabulary->bos);
  add("eos_token", vocabulary->eos);
  return sources;
}

Sources sources_of(const fs::path& model) {
  Sources sources;
  if (model.empty()) return sources;
  if (const auto gguf = find_gguf(model)) return sources_in_gguf(GgufFiles(*gguf));
  sources.templates = find_templates(model);
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"})
    read_special_tokens(model / name, sources.special_tokens);
  return sources;
}

}  // namespace

std::optional<ChatTemplate> ChatTemplate::load(const fs::path& model) {
  Sources found = sources_of(model);
  const NamedTemplates& by_name = found.templates;
  if (by_name.empty()) return std::nullopt;
  const auto plain = by_name.find(kDefault);
  if (plain == by_name.end()) {
    std::vector<std::string> names;
    for (const auto& [name, source] : by_name) names.push_back(name);
    throw_error<CheckpointError>(
        "{}: cannot choose a chat template: expected one with the name '{}', found {}; put one of them into "
        "a file and give it",
        by_name.begin()->second.file, kDefault, fmt::join(names, ", "));
  }
  ChatTemplate result(jinja::Template(plain->second.text, plain->second.file), plain->second.text);
  const auto with_tools = by_name.find(kWithTools);
  if (with_tools != by_name.end()) {
    result.with_tools_.emplace(with_tools->second.text, with_tools->second.file);
    result.source_ += with_tools->second.text;
  }
  result.special_tokens_ = std::move(found.special_tokens);
  return result;
}

ChatTemplate::PlainSources ChatTemplate::sources_in(const fs::path& model) {
  const NamedTemplates found = sources_of(model).templates;
  const auto find_source = [&](const char* name) {
    const auto place = found.find(name);
    return place == found.end() ? std::nullopt : std::optional(place->second.text);
  };
  return {.usual = find_source(kDefault), .with_tools = find_source(kWithTools)};
}

nlohmann::ordered_json ChatTemplate::special_tokens_in(const fs::path& model) {
  return sources_of(model).special_tokens;
}

ChatTemplate ChatTemplate::load_file(const fs::path& file, const fs::path& model) {
  const std::string source = read_template(file);
  ChatTemplate result(jinja::Template(source, file.string()), source);
  result.special_tokens_ = special_tokens_in(model);
  return result;
}

ChatTemplate ChatTemplate::open(const fs::path& file, const fs::path& model, std::string_view advice) {
  if (!file.empty()) return load_file(file, model);
  std::optional<ChatTemplate> found = load(model);
  require<CheckpointError>(
      found.has_value(),
      "{}: cannot make a prompt of messages: expected a chat template in tokenizer_config.json, "
      "chat_template.jinja or chat_template.json, found none; {}",
      model.string(), advice);
  return *std::move(found);
}

MarkedText ChatTemplate::render(const nlohmann::ordered_json& conversation,
                                jinja::RenderOptions options) const {
  nlohmann::ordered_json own = special_tokens_;
  // transformers passes these variables to each template, even if they are unset.
  own.update({{"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}});
  options.own = &own;
  const bool has_tools = conversation.contains("tools") && !conversation.at("tools").is_null();
  return (has_tools && with_tools_ ? *with_tools_ : plain_).render(conversation, options);
}

std::string ChatTemplate::eos_token() const { return special_tokens_.value("eos_token", std::string()); }

}  // namespace tp
