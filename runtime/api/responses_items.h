// Converts the input of /v1/responses to the messages of a chat.
#pragma once

#include "runtime/api/offered_tools.h"

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// Thinking as `encrypted_content`, a text that clients send back without reading it. Some clients keep only
// this form of the thinking.
std::string sealed_thoughts(std::string_view text);

// Combines items to messages. The model's thinking, texts and calls between two messages of other roles form
// one message, as the model wrote them.
class ItemReader {
 public:
  // `tools`: the tools as the model sees them. They must outlive the reader.
  explicit ItemReader(const OfferedTools& tools) : tools_(&tools) {}

  // Throws RequestError if a required item cannot be read.
  void add(const nlohmann::ordered_json& item);

  nlohmann::ordered_json take_messages();
  // Warnings about items that were left out.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void add_message(const nlohmann::ordered_json& item);
  void add_reasoning(const nlohmann::ordered_json& item);
  void add_call(const nlohmann::ordered_json& item, const nlohmann::ordered_json& name,
                const nlohmann::ordered_json& arguments);
  void add_result(const nlohmann::ordered_json& id, const nlohmann::ordered_json& output);
  nlohmann::ordered_json& open_answer();

  const OfferedTools* tools_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  std::vector<std::string> warnings_{};
};

}  // namespace tp
