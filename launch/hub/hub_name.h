// Names of models on the Hugging Face Hub.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tp {

// "ORG/NAME" or "ORG/NAME:FILE"
struct HubName {
  std::string repository;  // "ORG/NAME"
  std::string file;  // one of several GGUF models: a file, or a quantization such as "Q4_K_M"; may be empty

  std::string text() const { return file.empty() ? repository : repository + ":" + file; }
};

// Also reads the address of a model: "https://huggingface.co/ORG/NAME". Nothing for a text of another form,
// such as a path.
std::optional<HubName> parse_hub_name(std::string_view text);

// Whether the name of a file or revision, from a server or a user, is a path within its folder that can be
// printed and stored.
bool is_safe_path(std::string_view path);

}  // namespace tp
