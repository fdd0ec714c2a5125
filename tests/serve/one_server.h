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
  Arguments arguments() const { return {"--chat-template", path()}; }
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

inline nlohmann::json user_says(const std::string& text) { return {{"role", "user"}, {"content", text}}; }

// A suite of tests with one server. `Files` are those that it reads: files_->arguments() is its command line.
template <class Files>
class OneServer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new Files;
    server_ = new ServedProgram(kNoMpirun, files_->arguments());
  }
  static void TearDownTestSuite() {
    server_->end();
    delete server_;
    delete files_;
  }

  static inline Files* files_ = nullptr;
  static inline ServedProgram* server_ = nullptr;
};

class ServeApiAlone : public OneServer<TemplateFile> {
 protected:
  static const ServedProgram& server() { return *server_; }
};

}  // namespace tp::test
