// One server without mpirun, for tests that do not depend on the number of ranks.
#pragma once

#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/served_program.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::test {

constexpr const char* kPrompt = "Once upon a time";

// A temporary file with the chat template.
struct TemplateFile {
  TemplateFile() { std::ofstream(path()) << kTemplate; }
  std::string path() const { return (folder.path() / "template.jinja").string(); }
  TemporaryDirectory folder;
};

// Returns the text of one choice of a stream.
inline std::string streamed_text(const HttpReply& reply, int index = 0) {
  std::string text;
  for (const nlohmann::json& chunk : reply.chunks()) {
    for (const nlohmann::json& choice : chunk.at("choices")) {
      if (choice.at("index") != index) continue;
      if (choice.contains("text")) text += choice.at("text").get<std::string>();
      if (choice.contains("delta")) text += choice.at("delta").value("content", "");
    }
  }
  return text;
}

// Returns a request for this many greedy tokens.
inline nlohmann::json greedy(int tokens, nlohmann::json more = nlohmann::json::object()) {
  nlohmann::json body = {{"prompt", kPrompt}, {"max_tokens", tokens}, {"temperature", 0}};
  body.update(more);
  return body;
}

class ServeApiAlone : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    chat_template_ = new TemplateFile;
    server_ = new ServedProgram(kNoMpirun, {"--chat-template", chat_template_->path()});
  }
  static void TearDownTestSuite() {
    server_->end();
    delete server_;
    delete chat_template_;
  }
  static const ServedProgram& server() { return *server_; }

  static inline TemplateFile* chat_template_ = nullptr;
  static inline ServedProgram* server_ = nullptr;
};

}  // namespace tp::test
