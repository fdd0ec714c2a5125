// A model that says what a test wants: its next token depends on its last one alone.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tp::test {

// The tokens that follow the text "#name", with which a prompt ends. They all differ, as each has one
// successor.
using Scripts = std::map<std::string, std::vector<std::string>>;

// Returns the scripts of the tests of tools: thinking, text and calls in Hermes' notation. <tool_call> is a
// control token.
const Scripts& tool_scripts();

// Writes a Llama of one-hot embeddings with such weights, a tokenizer and a chat template. The template ends
// prompts with the script that its variable `script` names, "plain" unless given.
void write_scripted_model(const std::filesystem::path& folder, const Scripts& scripts);

}  // namespace tp::test
