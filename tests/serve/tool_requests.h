// Requests with tools to a model that follows scripts.
#pragma once

#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/one_server.h"
#include "tests/serve/scripted_model.h"

#include <string>

#include <gtest/gtest.h>

namespace tp::test {

struct ScriptedModel {
  explicit ScriptedModel(const Scripts& scripts = tool_scripts()) {
    write_scripted_model(folder.path(), scripts);
  }
  Arguments arguments() const { return {"--model", folder.path().string()}; }
  TemporaryDirectory folder;
};

inline nlohmann::json function_tool(const std::string& name) {
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"parameters", {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}}}}}};
}

inline nlohmann::json chat(const std::string& script, const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json body = {{"messages", {{{"role", "user"}, {"content", "The weather?"}}}},
                         {"tools", {function_tool("get_weather"), function_tool("get_time")}},
                         {"temperature", 0},
                         {"chat_template_kwargs", {{"script", script}}}};
  body.update(more);
  return body;
}

// Assembles the message from a stream's deltas.
inline nlohmann::json streamed_message(const HttpReply& reply) {
  nlohmann::json message = {
      {"content", ""}, {"reasoning_content", ""}, {"tool_calls", nlohmann::json::array()}};
  for (const nlohmann::json& chunk : reply.chunks()) {
    for (const nlohmann::json& choice : chunk.at("choices")) {
      const nlohmann::json& delta = choice.at("delta");
      for (const char* name : {"content", "reasoning_content"})
        message[name] = message[name].get<std::string>() + delta.value(name, "");
      for (const nlohmann::json& call : delta.value("tool_calls", nlohmann::json::array())) {
        const auto index = call.at("index").get<std::size_t>();
        if (call.contains("id")) {
          EXPECT_EQ(index, message["tool_calls"].size());
          message["tool_calls"].push_back(call);
        } else {
          std::string& arguments =
              message["tool_calls"].at(index)["function"]["arguments"].get_ref<std::string&>();
          arguments += call.at("function").at("arguments").get<std::string>();
        }
      }
      if (!choice.at("finish_reason").is_null()) message["finish_reason"] = choice.at("finish_reason");
    }
  }
  return message;
}

}  // namespace tp::test
