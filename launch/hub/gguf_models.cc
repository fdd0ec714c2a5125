#include "launch/hub/gguf_models.h"

#include "model/weights/gguf/gguf_part_name.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <set>

namespace tp {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string without_folders(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_model(const std::string& path) {
  const std::string name = lower(without_folders(path));
  return name.ends_with(".gguf") && name.find("mmproj") == name.npos && name.find("imatrix") == name.npos;
}

// Whether `path` contains exactly this tag, and not a longer one: Q4_K is not in Q4_K_M, and Q4_NL is not in
// IQ4_NL.
bool has_tag(const std::string& path, const std::string& tag) {
  const std::string text = lower(path);
  const std::string wanted = lower(tag);
  for (std::size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) {
    const std::size_t end = at + wanted.size();
    const bool begins = at == 0 || std::string_view("-._/").find(text[at - 1]) != std::string_view::npos;
    const bool ends = end < text.size() && std::string_view("-./").find(text[end]) != std::string_view::npos;
    if (begins && ends) return true;
  }
  return false;
}

bool has_file(const GgufModel& model, const std::function<bool(const std::string&)>& fits) {
  return std::any_of(model.files.begin(), model.files.end(), fits);
}

}  // namespace

std::vector<GgufModel> gguf_models(const std::vector<std::string>& paths) {
  const std::set<std::string> all(paths.begin(), paths.end());
  std::vector<GgufModel> models;
  for (const std::string& path : all) {
    if (!is_model(path)) continue;
    const std::optional<GgufPartName> part = parse_gguf_part_name(path);
    if (part && part->number != 1) continue;
    GgufModel model{{path}};
    for (std::size_t number = 2; part && number <= part->count && all.contains(part->of(number)); ++number)
      model.files.push_back(part->of(number));
    if (!part || model.files.size() == part->count) models.push_back(std::move(model));
  }
  return models;
}

std::vector<GgufModel> matching(const std::vector<GgufModel>& models, const std::string& wanted) {
  if (wanted.empty()) return models;
  const std::function<bool(const std::string&)> ways[] = {
      [&](const std::string& path) { return path == wanted; },
      [&](const std::string& path) { return without_folders(path) == wanted; },
      [&](const std::string& path) { return has_tag(path, wanted); },
  };
  for (const auto& fits : ways) {
    std::vector<GgufModel> found;
    for (const GgufModel& model : models)
      if (has_file(model, fits)) found.push_back(model);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace tp
