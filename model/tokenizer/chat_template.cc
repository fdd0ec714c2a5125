#include "model/tokenizer/chat_template.h"

#include "model/tokenizer/gguf_vocabulary.h"
#include "model/weights/checkpoint/gguf_files.h"
#include "model/weights/checkpoint/has_file.h"
#include "model/weights/checkpoint/json_node.h"
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

// Templates by name, with the file that they are from.
struct NamedTemplates {
  std::string file;
  std::map<std::string, std::string> sources;
};

bool is_there(const fs::path& file) { return has_file(file); }

std::string read_template(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  // A directory can be opened, but not read.
  const bool readable =
      stream.is_open() && (stream.peek() != std::ifstream::traits_type::eof() || stream.eof());
  require<CheckpointError>(
      readable, "cannot read the chat template {}: expected a file; check the path and its permissions",
      file.string());
  stream.clear();
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// `chat_template` of a JSON file: a text, or a list of {"name": .., "template": ..}.
std::map<std::string, std::string> templates_in(const JsonNode& json) {
  const std::optional<JsonNode> chat = json.find("chat_template");
  if (!chat) return {};
  if (!chat->is_array()) return {{kDefault, chat->string()}};
  std::map<std::string, std::string> sources;
  for (const JsonNode& element : chat->elements())
    sources[element.at("name").string()] = element.at("template").string();
  return sources;
}

NamedTemplates find_templates(const fs::path& folder) {
  const fs::path own_file = folder / "chat_template.jinja";
  if (is_there(own_file)) return {own_file.string(), {{kDefault, read_template(own_file)}}};
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    const fs::path file = folder / name;
    if (!is_there(file)) continue;
    const nlohmann::json document = read_json_file(file);
    NamedTemplates found{file.string(), templates_in(JsonNode(document, file))};
    if (!found.sources.empty()) return found;
  }
  return {};
}

// bos_token, eos_token, pad_token, ...: members that are a text or an object with the text in `content`.
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

// What a model says of conversations.
struct Sources {
  NamedTemplates templates{};
  nlohmann::ordered_json special_tokens = nlohmann::ordered_json::object();
};

Sources sources_in_gguf(const GgufFiles& files) {
  Sources sources;
  const std::optional<EmbeddedVocabulary> vocabulary = gguf_vocabulary(files.metadata());
  if (!vocabulary) return sources;
  if (vocabulary->chat_template) sources.templates = {files.name(), {{kDefault, *vocabulary->chat_template}}};
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
  const std::map<std::string, std::string>& by_name = found.templates.sources;
  if (by_name.empty()) return std::nullopt;
  const auto plain = by_name.find(kDefault);
  if (plain == by_name.end()) {
    std::vector<std::string> names;
    for (const auto& [name, source] : by_name) names.push_back(name);
    throw_error<CheckpointError>(
        "{}: cannot choose a chat template: expected one with the name '{}', found {}; put one of them into "
        "a "
        "file and give it",
        found.templates.file, kDefault, fmt::join(names, ", "));
  }
  ChatTemplate result(jinja::Template(plain->second, found.templates.file), plain->second);
  const auto with_tools = by_name.find(kWithTools);
  if (with_tools != by_name.end()) {
    result.with_tools_.emplace(with_tools->second, fmt::format("{} ({})", found.templates.file, kWithTools));
    result.source_ += with_tools->second;
  }
  result.special_tokens_ = std::move(found.special_tokens);
  return result;
}

std::optional<std::string> ChatTemplate::source_of(const fs::path& model) {
  const Sources found = sources_of(model);
  const auto plain = found.templates.sources.find(kDefault);
  return plain == found.templates.sources.end() ? std::nullopt : std::optional(plain->second);
}

ChatTemplate ChatTemplate::load_file(const fs::path& file, const fs::path& model) {
  const std::string source = read_template(file);
  ChatTemplate result(jinja::Template(source, file.string()), source);
  result.special_tokens_ = sources_of(model).special_tokens;
  return result;
}

MarkedText ChatTemplate::render(const nlohmann::ordered_json& conversation,
                                jinja::RenderOptions options) const {
  nlohmann::ordered_json own = special_tokens_;
  // transformers gives these to every template, also where there are none.
  own.update({{"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}});
  options.own = &own;
  const bool has_tools = conversation.contains("tools") && !conversation.at("tools").is_null();
  return (has_tools && with_tools_ ? *with_tools_ : plain_).render(conversation, options);
}

std::string ChatTemplate::eos_token() const { return special_tokens_.value("eos_token", std::string()); }

}  // namespace tp
