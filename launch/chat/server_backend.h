#pragma once

#include "launch/chat/chat_backend.h"
#include "launch/chat/server_client.h"
#include "launch/options/sampling_flags.h"

namespace tp {

// Answers with a server's model.
class ServerBackend final : public ChatBackend {
 public:
  // `client` must outlive it.
  ServerBackend(ServerClient& client, ServedModel model, SamplingFlags sampling);

  ChatAnswer answer(const nlohmann::ordered_json& conversation, const ChatListener& listener) override;
  std::size_t max_length() const override { return model_.max_length; }
  SamplingFlags& sampling() override { return sampling_; }

 private:
  nlohmann::ordered_json request_of(const nlohmann::ordered_json& conversation) const;

  ServerClient& client_;
  ServedModel model_;
  SamplingFlags sampling_;
};

}  // namespace tp
