// A model that follows a test's scripts: its next token depends on its last token only.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tp::test {

// The tokens that follow a prompt ending with "#name". All tokens differ, because each has one successor.
using Scripts = std::map<std::string, std::vector<std::string>>;

// Returns the scripts of the tests of tools: thinking, text and calls in Hermes' notation. <tool_call> is a
// control token.
const Scripts& tool_scripts();

// Writes a Llama model with one-hot embeddings, its tokenizer and a chat template. The template ends prompts
// with the script that its variable `script` names, or with "plain".
void write_scripted_model(const std::filesystem::path& folder, const Scripts& scripts);

}  // namespace tp::test
