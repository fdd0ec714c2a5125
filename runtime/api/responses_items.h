// The input of /v1/responses as the messages of a chat.
#pragma once

#include "runtime/api/offered_tools.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// Puts items together to messages. What a model thought, said and called between two messages of others is
// one message, as it was when the model wrote it.
class ItemReader {
 public:
  // `tools`: as they are offered to the model. It must outlive the reader.
  explicit ItemReader(const OfferedTools& tools) : tools_(&tools) {}

  // Throws RequestError for an item that is needed and cannot be read.
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
